"""Discrepancies between a task's row and its record in Redis, pure, and what to do about each.

No time thresholds: the reconciler holds the job's lock while it compares, and so does dispatch, so an absent
record is absent for good.
"""

from enum import StrEnum

from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import RecordState
from dalston_queue.jobs.lifecycle.states import TaskStatus


class Discrepancy(StrEnum):
    NO_ENTRY = "in Postgres but not in Redis"
    OTHER_ATTEMPT = "Redis has another attempt"
    EVENT_LOST = "settled, but its event is gone"
    NO_OWNER = "running, but no engine has it"


# The task's next attempt is the cure, except where the entry is fine and only the row is behind.
REBUILT = frozenset({Discrepancy.NO_ENTRY, Discrepancy.OTHER_ATTEMPT, Discrepancy.EVENT_LOST})


def compare(status: str, attempt: int, record: Record | None, *, events_waiting: bool) -> Discrepancy | None:
    """Compare a row that should have an entry with what Redis has. `events_waiting`: the queue has events that no
    orchestrator has acknowledged yet, so a settled record may simply be waiting for its own."""
    if record is None:
        return Discrepancy.NO_ENTRY
    if record.attempt != attempt:
        return Discrepancy.OTHER_ATTEMPT
    if record.state is RecordState.SETTLED:
        return None if events_waiting else Discrepancy.EVENT_LOST
    if record.state is RecordState.WAITING and status == TaskStatus.RUNNING:
        return None if events_waiting else Discrepancy.NO_OWNER
    return None


def is_orphan(row: tuple[bool, int] | None, record: Record) -> bool:
    """True if this record's task doesn't need it: there is no such task, it is over, or it is further on.
    `row` is whether the task is over, and its attempt."""
    if record.state is RecordState.SETTLED:
        return False  # its event is on the way, and takes the record with it
    if row is None:
        return True
    over, attempt = row
    return over or attempt > record.attempt
