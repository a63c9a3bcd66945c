"""Requeues a running task: taken from its engine by an operator, first in its queue again, uncharged.

No status is written here: the script writes `task.requeued`, and the orchestrator applies it like any other event.
Racing a completion, the script that comes first wins; the other finds the task gone.
"""

from dataclasses import dataclass
from uuid import UUID

from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.states import TASK_OVER
from dalston_queue.models import Task
from dalston_queue.redis import get_broker


@dataclass(frozen=True, slots=True)
class Requeue:
    """The outcome of a request to requeue."""

    found: bool  # there is such a task
    outcome: Requeued
    status: str  # of the task when it was asked


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
