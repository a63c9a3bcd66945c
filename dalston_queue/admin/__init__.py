"""Django's admin for our tables, one noun per file. What the lifecycle owns is shown and never edited here."""

from dalston_queue.admin.api_token import ApiTokenAdmin
from dalston_queue.admin.dead_letter import DeadLetterAdmin
from dalston_queue.admin.duty import DutyAdmin, LeadershipAdmin
from dalston_queue.admin.job import JobAdmin
from dalston_queue.admin.nodes import EngineAdmin, NodeAdmin
from dalston_queue.admin.operator_action import OperatorActionAdmin
from dalston_queue.admin.project import ProjectAdmin
from dalston_queue.admin.replay_batch import ReplayBatchAdmin
from dalston_queue.admin.schedule import ScheduleAdmin
from dalston_queue.admin.task import TaskAdmin
from dalston_queue.admin.user import UserAdmin
from dalston_queue.admin.webhook_delivery import WebhookDeliveryAdmin

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
