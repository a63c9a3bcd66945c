"""An entry that an engine owns, in the bytes that the scripts compare and write: Lua need not build them."""

from __future__ import annotations

from dalston_queue.broker.protocol.messages import TaskMessage, decode_task
from dalston_queue.broker.protocol.record import (
    ATTEMPT,
    DEADLINE,
    DELIVERIES,
    ENTRY,
    JOB,
    LOSSES,
    OWNER,
    PROGRESS,
    SEQ,
    STATE,
    TIMEOUT,
    Record,
)
from dalston_queue.broker.protocol.types import EventKind, Tier


class Given:
    """An entry as a claim or a beat gave it. A settlement is accepted if the record still has `start` behind the letter
    of its state."""

    __slots__ = ("_body", "_fields", "_head", "deadline_ms", "entry", "owner", "start", "stream", "task", "tier")

    def __init__(self, claim: bytes, stream: str, tier: Tier, owner: bytes, now_ms: int) -> None:
        """claim: lines of task, record (waiting until a claim, running when a beat found it), head and JSON."""
        self.task, line, self._head, self._body = claim.split(b"\n", 3)
        self._fields = fields = line.split(b"\t", PROGRESS)
        self.stream, self.tier, self.owner, self.entry = stream, tier, owner, fields[ENTRY]
        if fields[STATE] == b"w":
            self.start = b"%b\t%b\t" % (line[1:], owner)
            self.deadline_ms = 0 if fields[TIMEOUT] == b"0" else now_ms + int(fields[TIMEOUT])
        else:
            self.start = b"\t%b\t" % b"\t".join(fields[ENTRY : OWNER + 1])
            self.deadline_ms = int(fields[DEADLINE])

    def message(self, queue: str) -> TaskMessage | str:
        """The task. A string says why it can't be read."""
        return decode_task(queue, self.task, self._fields, self._head, self._body)

    def told(self, kind: bytes) -> bytes:
        """The head of the event that ends it. Its time is that of the event's entry."""
        fields = self._fields
        return b"%b\t%b\t%b\t%b\t%d\t%b\t%b\t%b\t\t" % (
            kind, self.task, fields[JOB], fields[ATTEMPT], int(fields[SEQ]) + 1,
            fields[DELIVERIES], fields[LOSSES], self.owner,
        )  # fmt: skip


def given_of(task_id: str, record: Record) -> Given:
    """For one that knows the record of a running task only, to settle it: nobody looks at its tier or message."""
    counts = (record.attempt, record.seq, record.deliveries, record.losses)
    place = ("r", record.entry_id, record.stream, record.aged, record.timeout_ms, record.job_id)
    times = (record.claimed_at_ms, record.renewed_at_ms, record.deadline_ms)
    line = "\t".join(map(str, (*place, *counts, record.owner, *times, 0, "")))
    return Given(f"{task_id}\n{line}\n\n".encode(), record.stream, Tier.MEDIUM, record.owner.encode(), 0)


Settlement = tuple[Given, EventKind, bytes]  # what ended, how, and the JSON body of its event
