"""The tables of the queue.

project         who owns jobs and tokens
api_token       what lets a client in, with its scopes
login_attempt   failed logins, counted by the throttle
job             jobs, and the idempotency keys of their requests
task            tasks, and every move of each
dead_letter     tasks without another attempt, waiting for an operator
replay_batch    replays of dead letters that go slowly or can be undone
schedule        recurring jobs
stage_pause     paused queues
webhook         calls to callback URLs, and the secrets that sign them
node            nodes and engines as last seen
audit           what operators did, with its hash chain
housekeeping    duties, leaders, samples
fields          choices and check constraints made of enums
"""

from dalston_queue.models.api_token import ApiToken, Scope
from dalston_queue.models.audit import AuditEntry, OperatorAction
from dalston_queue.models.dead_letter import DeadLetter
from dalston_queue.models.housekeeping import Duty, Leadership, Sample
from dalston_queue.models.job import IdempotencyKey, Job
from dalston_queue.models.login_attempt import LoginAttempt
from dalston_queue.models.node import Engine, Node
from dalston_queue.models.project import Project
from dalston_queue.models.replay_batch import ReplayBatch
from dalston_queue.models.schedule import Schedule
from dalston_queue.models.stage_pause import StagePause
from dalston_queue.models.task import Task, TaskEvent
from dalston_queue.models.webhook import WebhookDelivery, WebhookSecret

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
