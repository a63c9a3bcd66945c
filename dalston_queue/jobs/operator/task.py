"""Takes one task from its queue or engine, because an operator asks for it: requeues it, or makes it a dead letter.

Requeue: the task goes first in its queue again, uncharged. The script writes the event, and the orchestrator applies
it like any other. Dead-letter: a waiting task is removed and ended here; a running one is taken from its engine by the
script that also writes the event which ends it. Racing a completion, the script that comes first wins: a later result
is refused, or the request finds the task gone.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from dalston_queue.broker.operations.reclaim import Expired
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, Removed
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.states import TASK_OVER, TaskStatus
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.models import Task
from dalston_queue.redis import get_broker

ERROR_TYPE = "DeadLettered"


@dataclass(frozen=True, slots=True)
class Requeue:
    """The outcome of a request to requeue."""

    found: bool  # there is such a task
    outcome: Requeued
    status: str  # of the task at the time of the request


def requeue_task(task_id: UUID, *, actor: str, why: str, entry_id: str = "") -> Requeue:
    """`entry_id`: the delivery that the operator saw. If the task is with another engine by now, it stays there."""
    task = Task.objects.filter(id=task_id).only("queue", "attempt", "status").first()
    if task is None:
        return Requeue(found=False, outcome=Requeued.ABSENT, status="")
    if task.status in TASK_OVER:
        return Requeue(found=True, outcome=Requeued.ABSENT, status=task.status)
    error = ErrorInfo(message=f"taken from its engine by {actor}{f': {why}' if why else ''}", cause=Cause.DRAINED)
    outcome = get_broker().requeue(task.queue, str(task_id), task.attempt, error, entry_id=entry_id)
    return Requeue(found=True, outcome=outcome, status=task.status)


class DeadLetterOutcome(StrEnum):
    ENDED = "ended"  # the task waited, and is a dead letter now
    TAKEN = "taken"  # the task was taken from its engine, and the event that ends it is on the way
    OVER = "over"  # the task had ended or settled before: nothing was changed
    CHANGED = "changed"  # the task is at another attempt: nothing was changed
    NOT_QUEUED = "not queued"  # the task waits for other stages or for its time: cancel it instead


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The outcome of a request to dead-letter a task."""

    found: bool
    outcome: DeadLetterOutcome
    status: str  # of the task, now


def dead_letter(task_id: UUID, now: datetime, *, actor: str, why: str, attempt: int | None = None) -> DeadLettered:
    """`attempt`: the one that the operator saw. If the task is at a later one by now, it is left alone."""
    task = Task.objects.filter(id=task_id).only("job_id").first()
    if task is None:
        return DeadLettered(found=False, outcome=DeadLetterOutcome.OVER, status="")
    with transaction.atomic():
        lock_jobs([task.job_id])
        task.refresh_from_db(fields=["status", "attempt", "queue", "required"])
        outcome = _refused(task, attempt) or _end(task, now, f"dead-lettered by {actor}: {why}")
    task.refresh_from_db(fields=["status"])
    return DeadLettered(found=True, outcome=outcome, status=task.status)


def _refused(task: Task, attempt: int | None) -> DeadLetterOutcome | None:
    if task.status in TASK_OVER:
        return DeadLetterOutcome.OVER
    if attempt is not None and attempt != task.attempt:
        return DeadLetterOutcome.CHANGED
    if task.status in {TaskStatus.PENDING, TaskStatus.SCHEDULED}:
        return DeadLetterOutcome.NOT_QUEUED
    return None


def _end(task: Task, now: datetime, message: str) -> DeadLetterOutcome:
    """Its job is locked, so no other process appends it meanwhile."""
    broker = get_broker()
    found = broker.remove(task.queue, str(task.id), task.attempt)
    if found is Removed.RUNNING:
        error = ErrorInfo(message=message, type=ERROR_TYPE, cause=Cause.REJECTED)
        taken = broker.expire(task.queue, str(task.id), task.attempt, error)
        return DeadLetterOutcome.TAKEN if taken is Expired.EXPIRED else DeadLetterOutcome.OVER
    if found is Removed.SETTLED:
        return DeadLetterOutcome.OVER
    ending = Ending(
        task_id=task.id, attempt=task.attempt, at=now, cause=Cause.REJECTED, message=message, error_type=ERROR_TYPE
    )
    end_tasks([ending])
    advance([task.job_id], now)
    return DeadLetterOutcome.ENDED
