"""A task that an operator is about to act on, as it is now: on its own page, or on that of its stream."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker.broker import Broker
from dalston_queue.broker.protocol.types import RecordState
from dalston_queue.models import Task

ACTED_ON = ("queue", "task_type", "stage", "job__name", "status", "required", "attempt")
"""What is read of it."""
_STATES = {RecordState.RUNNING: "running", RecordState.WAITING: "waiting"}


@dataclass(frozen=True, slots=True)
class Acting:
    task_id: str
    job_id: str
    task_type: str
    job: str
    status: str  # in Postgres, in words
    state: str  # `running`, `waiting`, or `gone` when it is in no stream
    required: bool
    attempt: int
    owner: str
    entry_id: str

    @property
    def is_live(self) -> bool:
        return self.state != "gone"


def acting_on(task: Task, broker: Broker) -> Acting:
    """Raises BrokerError."""
    task_id = str(task.id)
    record = broker.records(task.queue, [task_id]).get(task_id)
    return Acting(
        task_id=task_id,
        job_id=str(task.job_id),
        task_type=task.task_type,
        job=task.job.name,
        status=task.status.replace("_", " "),
        state=_STATES.get(record.state, "gone") if record and record.attempt == task.attempt else "gone",
        required=task.required,
        attempt=task.attempt,
        owner=record.owner if record else "",
        entry_id=record.entry_id if record else "",
    )
