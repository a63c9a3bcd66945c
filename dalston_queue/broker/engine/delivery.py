"""One delivery of a task to an engine: reports progress, renews, settles and releases it.

Beside the message a delivery has the bytes that the scripts compare and write, so that Lua need not build them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dalston_queue.broker.protocol.messages import Outcome, TaskMessage, decode_task
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
from dalston_queue.broker.protocol.types import EventKind, Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.engine.consumer import Consumer
    from dalston_queue.broker.engine.session import Session

EntryKey = tuple[int, str, bytes]  # shard, stream, entry id: two shards may have the same stream name and entry id


class Delivery:
    """Safe to use from the thread that runs the task: the consumer serialises its calls."""

    __slots__ = (
        "_body",
        "_fields",
        "_head",
        "_owner",
        "cancel_requested",
        "consumer",
        "deadline_ms",
        "entry",
        "key",
        "lost",
        "message",
        "session",
        "start",
        "stream",
        "task",
        "tier",
    )
    consumer: Consumer  # set by the consumer that holds the delivery
    message: TaskMessage  # set by read_message()

    def __init__(self, session: Session, claim: bytes, stream: str, tier: Tier, owner: bytes, now_ms: int = 0) -> None:
        """claim: lines of task, record (waiting until a claim, running when a renewal found it), head and JSON."""
        self.task, line, self._head, self._body = claim.split(b"\n", 3)
        self._fields = fields = line.split(b"\t", PROGRESS)
        self.session, self.stream, self.tier, self._owner, self.entry = session, stream, tier, owner, fields[ENTRY]
        self.key: EntryKey = (session.shard.index, stream, self.entry)
        # a settlement is accepted if the record still has this behind the letter of its state
        if fields[STATE] == b"w":
            self.start = b"%b\t%b\t" % (line[1:], owner)
            self.deadline_ms = 0 if fields[TIMEOUT] == b"0" else now_ms + int(fields[TIMEOUT])
        else:
            self.start = b"\t%b\t" % b"\t".join(fields[ENTRY : OWNER + 1])
            self.deadline_ms = int(fields[DEADLINE])
        self.cancel_requested = False  # set by progress(), renew() and Consumer.renew_all()
        self.lost = False  # reclaimed: stop the work, its result will be refused

    @classmethod
    def of_record(cls, session: Session, task_id: str, record: Record) -> Delivery:
        """From the record of a running task, to settle it without its message."""
        counts = (record.attempt, record.seq, record.deliveries, record.losses)
        entry = ("r", record.entry_id, record.stream, record.timeout_ms, record.job_id)
        times = (record.claimed_at_ms, record.renewed_at_ms, record.deadline_ms)
        line = "\t".join(map(str, (*entry, *counts, record.owner, *times, 0, "")))
        return cls(session, f"{task_id}\n{line}\n\n".encode(), record.stream, Tier.MEDIUM, record.owner.encode())

    def read_message(self) -> str:
        """Decode the message. Returns why it can't be read, or ""."""
        message = decode_task(self.session.queue, self.task, self._fields, self._head, self._body)
        if isinstance(message, str):
            return message
        self.message = message
        return ""

    def __repr__(self) -> str:
        return f"<Delivery {self.task.decode()} attempt {self._fields[ATTEMPT].decode()} from {self.stream}>"

    @property
    def entry_id(self) -> str:
        return self.entry.decode()

    @property
    def task_id(self) -> str:
        return self.message.task_id

    @property
    def attempt(self) -> int:
        return self.message.attempt

    @property
    def deliveries(self) -> int:
        """Engines that died with the task so far."""
        return self.message.deliveries

    @property
    def losses(self) -> int:
        """Nodes lost with the task so far, and engines that died with it and other tasks."""
        return self.message.losses

    @property
    def timeout_ms(self) -> int:
        """How long from the claim; 0: no limit."""
        return self.message.timeout_ms

    def event_head(self, kind: EventKind) -> bytes:
        """The head of the event that ends the attempt, as include/event.lua writes it. The entry's id has its time."""
        fields = self._fields
        return b"%b\t%b\t%b\t%b\t%d\t%b\t%b\t%b\t\t" % (
            kind.encode(), self.task, fields[JOB], fields[ATTEMPT], int(fields[SEQ]) + 1,
            fields[DELIVERIES], fields[LOSSES], self._owner,
        )  # fmt: skip

    def progress(self, progress: Any) -> bool:
        """Report progress (any JSON value) and renew. False: stop, the task was cancelled or lost (see the flags)."""
        return self.consumer.renew(self, progress)

    def renew(self) -> bool:
        """Report that the work goes on. False: stop, the task was cancelled or lost (see the flags)."""
        return self.consumer.renew(self)

    def settle(self, outcome: Outcome) -> Settled:
        """Settle now, without claiming. LOST: another engine has the task, the result does not count."""
        return self.consumer.exchange([(self, outcome)], free=0).settled[0]

    def release(self) -> bool:
        """Release the task, uncounted, as the first of its queue. False: it was lost."""
        return self.task_id in self.consumer.release([self])


Settlement = tuple[Delivery, EventKind, bytes]  # what ended, how, and the JSON body of its event
