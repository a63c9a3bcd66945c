"""The tables, one noun per file."""

from dalston_queue.models.api_token import ApiToken, Scope
from dalston_queue.models.audit_entry import AuditEntry
from dalston_queue.models.dead_letter import DeadLetter
from dalston_queue.models.duty import Duty
from dalston_queue.models.engine import Engine
from dalston_queue.models.idempotency_key import IdempotencyKey
from dalston_queue.models.job import Job
from dalston_queue.models.leadership import Leadership
from dalston_queue.models.login_attempt import LoginAttempt
from dalston_queue.models.node import Node
from dalston_queue.models.operator_action import OperatorAction
from dalston_queue.models.project import Project
from dalston_queue.models.replay_batch import ReplayBatch
from dalston_queue.models.sample import Sample
from dalston_queue.models.schedule import Schedule
from dalston_queue.models.stage_pause import StagePause
from dalston_queue.models.task import Task
from dalston_queue.models.task_event import TaskEvent
from dalston_queue.models.webhook_delivery import WebhookDelivery
from dalston_queue.models.webhook_secret import WebhookSecret

__all__ = [
    "ApiToken",
    "AuditEntry",
    "DeadLetter",
    "Duty",
    "Engine",
    "IdempotencyKey",
    "Job",
    "Leadership",
    "LoginAttempt",
    "Node",
    "OperatorAction",
    "Project",
    "ReplayBatch",
    "Sample",
    "Schedule",
    "Scope",
    "StagePause",
    "Task",
    "TaskEvent",
    "WebhookDelivery",
    "WebhookSecret",
]
