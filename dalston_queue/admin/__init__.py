"""Django's admin for our tables. Rows that the lifecycle owns are shown and never edited here.

base         read-only rows, bounded lists, changes on record
work         jobs, tasks, dead letters, replay batches, schedules, webhook deliveries
operations   the audit trail, duties, leaders, nodes, engines
api_token    projects and their tokens
user         users and their roles
"""

from dalston_queue.admin.api_token import ApiTokenAdmin, ProjectAdmin
from dalston_queue.admin.operations import DutyAdmin, EngineAdmin, LeadershipAdmin, NodeAdmin, OperatorActionAdmin
from dalston_queue.admin.user import UserAdmin
from dalston_queue.admin.work import (
    DeadLetterAdmin,
    JobAdmin,
    ReplayBatchAdmin,
    ScheduleAdmin,
    TaskAdmin,
    WebhookDeliveryAdmin,
)

__all__ = [
    "ApiTokenAdmin",
    "DeadLetterAdmin",
    "DutyAdmin",
    "EngineAdmin",
    "JobAdmin",
    "LeadershipAdmin",
    "NodeAdmin",
    "OperatorActionAdmin",
    "ProjectAdmin",
    "ReplayBatchAdmin",
    "ScheduleAdmin",
    "TaskAdmin",
    "UserAdmin",
    "WebhookDeliveryAdmin",
]
