"""An entry that an engine owns, in the bytes that the scripts compare and write: Lua need not build them."""

from __future__ import annotations

from dalston_queue.broker.record import Record
from dalston_queue.broker.types import EventKind, Tier


class Proof:
    """What a settlement must show to be accepted."""

    __slots__ = ("_fields", "deadline_ms", "entry", "owner", "start", "stream", "task")

    def __init__(self, task: bytes, line: bytes, stream: str, owner: bytes, now_ms: int) -> None:
        """From the task's record as a claim (waiting until now) or a beat (running already) found it."""
        self.task = task
        self.stream = stream
        self.owner = owner
        self._fields = fields = line.split(b"\t", 14)  # as in record.py
        self.entry = fields[1]
        if fields[0] == b"w":
            self.start = b"%b\t%b\t" % (line[1:], owner)
            self.deadline_ms = 0 if fields[4] == b"0" else now_ms + int(fields[4])
        else:
            self.start = b"\t%b\t" % b"\t".join(fields[1:11])
            self.deadline_ms = int(fields[13])

    def told(self, kind: bytes) -> bytes:
        """The head of the event that ends it. Its time is that of the event's entry."""
        fields = self._fields
        return b"%b\t%b\t%b\t%b\t%d\t%b\t%b\t%b\t\t" % (
            kind, self.task, fields[5], fields[6], int(fields[7]) + 1, fields[8], fields[9], self.owner,
        )  # fmt: skip


def proof_of(task_id: str, record: Record) -> Proof:
    """For one that knows the record only."""
    counts = (record.attempt, record.seq, record.deliveries, record.losses)
    place = ("r", record.entry_id, record.stream, record.aged, record.timeout_ms, record.job_id)
    times = (record.claimed_at_ms, record.renewed_at_ms, record.deadline_ms)
    line = "\t".join(map(str, (*place, *counts, record.owner, *times, 0, "")))
    return Proof(task_id.encode(), line.encode(), record.stream, record.owner.encode(), 0)


class Given(Proof):
    """An entry as a claim or a beat gives it: lines of task, record, head and JSON."""

    __slots__ = ("tier", "values")

    def __init__(self, claim: bytes, stream: str, tier: Tier, owner: bytes, now_ms: int) -> None:
        task, line, head, body = claim.split(b"\n", 3)
        Proof.__init__(self, task, line, stream, owner, now_ms)
        self.tier = tier
        fields = self._fields
        # what decode_task takes: task, job, attempt, head, JSON, deliveries, losses
        self.values = (task, fields[5], fields[6], head, body, fields[8], fields[9])


Settlement = tuple[Proof, EventKind, bytes]  # what ended, how, and the JSON body of its event
