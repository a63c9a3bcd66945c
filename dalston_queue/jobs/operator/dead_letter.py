"""Makes a task a dead letter because an operator says so: it will not succeed, and nobody should wait for its budgets.

What waits in line is removed and ended here; what runs is taken from its engine by the script that also writes the
event which ends it, so a result that comes later is refused. An optional task ends as failed, as always.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from dalston_queue.broker.operations.reclaim import Expired
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, Removed
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.states import TASK_OVER, TaskStatus
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.models import Task
from dalston_queue.redis import get_broker

ERROR_TYPE = "DeadLettered"


class Aside(StrEnum):
    ENDED = "ended"  # it waited, and is over
    TAKEN = "taken"  # it ran; it was taken from its engine, and the event that ends it is on the way
    OVER = "over"  # it had ended before, or has just settled: nothing was changed
    CHANGED = "changed"  # it is at another attempt by now: nothing was changed
    NOT_IN_LINE = "not in line"  # it waits for other stages or for its time: cancel it instead


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """What a request to set a task aside came to."""

    found: bool
    outcome: Aside
    status: str  # of the task, now


def dead_letter(task_id: UUID, now: datetime, *, actor: str, why: str, attempt: int | None = None) -> DeadLettered:
    """`attempt`: the one that the operator saw. If the task is at a later one by now, it is left alone."""
    task = Task.objects.filter(id=task_id).only("job_id").first()
    if task is None:
        return DeadLettered(found=False, outcome=Aside.OVER, status="")
    with transaction.atomic():
        lock_jobs([task.job_id])
        task.refresh_from_db(fields=["status", "attempt", "queue", "required"])
        outcome = _refused(task, attempt) or _end(task, now, f"set aside by {actor}: {why}")
    task.refresh_from_db(fields=["status"])
    return DeadLettered(found=True, outcome=outcome, status=task.status)


def _refused(task: Task, attempt: int | None) -> Aside | None:
    if task.status in TASK_OVER:
        return Aside.OVER
    if attempt is not None and attempt != task.attempt:
        return Aside.CHANGED
    if task.status in {TaskStatus.PENDING, TaskStatus.SCHEDULED}:
        return Aside.NOT_IN_LINE
    return None


def _end(task: Task, now: datetime, message: str) -> Aside:
    """Its job is locked, so nobody appends it meanwhile."""
    broker = get_broker()
    found = broker.remove(task.queue, str(task.id), task.attempt)
    if found is Removed.RUNNING:
        error = ErrorInfo(message=message, type=ERROR_TYPE, cause=Cause.REJECTED)
        taken = broker.expire(task.queue, str(task.id), task.attempt, error)
        return Aside.TAKEN if taken is Expired.EXPIRED else Aside.OVER
    if found is Removed.SETTLED:
        return Aside.OVER
    ending = Ending(
        task_id=task.id, attempt=task.attempt, at=now, cause=Cause.REJECTED, message=message, error_type=ERROR_TYPE
    )
    end_tasks([ending])
    advance([task.job_id], now)
    return Aside.ENDED
