"""An entry that an engine owns, in the bytes that the scripts compare and write: Lua need not build them."""

from __future__ import annotations

from dalston_queue.broker.record import Record
from dalston_queue.broker.types import EventKind, Tier


class Given:
    """As a claim or a beat gives it, and with what a settlement shows that it still is its own."""

    __slots__ = ("body", "deadline_ms", "entry", "fields", "head", "owner", "start", "stream", "task", "tier")

    def __init__(self, claim: bytes, stream: str, tier: Tier, owner: bytes, now_ms: int) -> None:
        """claim: lines of task, record (waiting until a claim, running when a beat found it), head and JSON."""
        self.task, line, self.head, self.body = claim.split(b"\n", 3)
        self.fields = fields = line.split(b"\t", 14)  # as in record.py
        self.stream, self.tier, self.owner, self.entry = stream, tier, owner, fields[1]
        if fields[0] == b"w":
            self.start = b"%b\t%b\t" % (line[1:], owner)
            self.deadline_ms = 0 if fields[4] == b"0" else now_ms + int(fields[4])
        else:
            self.start = b"\t%b\t" % b"\t".join(fields[1:11])
            self.deadline_ms = int(fields[13])

    def told(self, kind: bytes) -> bytes:
        """The head of the event that ends it. Its time is that of the event's entry."""
        fields = self.fields
        return b"%b\t%b\t%b\t%b\t%d\t%b\t%b\t%b\t\t" % (
            kind, self.task, fields[5], fields[6], int(fields[7]) + 1, fields[8], fields[9], self.owner,
        )  # fmt: skip


def given_of(task_id: str, record: Record) -> Given:
    """For one that knows the record of a running task only, and settles it."""
    counts = (record.attempt, record.seq, record.deliveries, record.losses)
    place = ("r", record.entry_id, record.stream, record.aged, record.timeout_ms, record.job_id)
    times = (record.claimed_at_ms, record.renewed_at_ms, record.deadline_ms)
    line = "\t".join(map(str, (*place, *counts, record.owner, *times, 0, "")))
    return Given(f"{task_id}\n{line}\n\n".encode(), record.stream, Tier.MEDIUM, record.owner.encode(), 0)


Settlement = tuple[Given, EventKind, bytes]  # what ended, how, and the JSON body of its event
