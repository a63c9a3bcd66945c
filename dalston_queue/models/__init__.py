"""The tables of the queue.

accounts       projects, API tokens, failed logins, people of the sign-in provider
job            jobs, and the idempotency keys of their requests
task           tasks, and every transition of each
order          the lanes, and how many wait in each; limits of queues, projects and keys
dead_letter    tasks without another attempt, waiting for an operator
replay_batch   replays of dead letters that are paced or can be undone
schedule       recurring jobs
webhook        calls to callback URLs, and the secrets that sign them
operations     nodes and engines as last seen, paused queues, duties, leaders, samples
alert          alerts that stand or stood
artifact       which files of the artifact store each job needs
audit          what operators did, with its hash chain
fields         choices and check constraints made of enums
"""

from dalston_queue.models.accounts import ApiToken, Identity, LoginAttempt, Project, Scope
from dalston_queue.models.alert import AlertState
from dalston_queue.models.artifact import JobArtifact
from dalston_queue.models.audit import AuditEntry, OperatorAction
from dalston_queue.models.dead_letter import DeadLetter
from dalston_queue.models.job import IdempotencyKey, Job
from dalston_queue.models.operations import Duty, Engine, Leadership, Node, Sample, StagePause
from dalston_queue.models.order import Depth, Lane, Limit
from dalston_queue.models.replay_batch import ReplayBatch
from dalston_queue.models.schedule import Schedule
from dalston_queue.models.task import Task, TaskEvent
from dalston_queue.models.webhook import WebhookDelivery, WebhookSecret

__all__ = [
    "AlertState",
    "ApiToken",
    "AuditEntry",
    "DeadLetter",
    "Depth",
    "Duty",
    "Engine",
    "IdempotencyKey",
    "Identity",
    "Job",
    "JobArtifact",
    "Lane",
    "Leadership",
    "Limit",
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
