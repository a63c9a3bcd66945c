"""One delivery of a task to an engine: reports progress, renews, settles and releases it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dalston_queue.broker.engine.given import Given
from dalston_queue.broker.engine.session import Session
from dalston_queue.broker.protocol.messages import Outcome, TaskMessage
from dalston_queue.broker.protocol.types import Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.engine.consumer import Consumer


Place = tuple[int, str, bytes]  # shard, stream, entry id


class Delivery:
    """Safe to use from the thread that runs the task; calls are serialised by its consumer."""

    __slots__ = (
        "_consumer",
        "cancel_requested",
        "given",
        "lost",
        "message",
        "place",
        "session",
    )

    def __init__(self, consumer: Consumer, session: Session, given: Given, message: TaskMessage) -> None:
        self._consumer = consumer
        self.session = session
        self.message = message
        self.given = given
        # two shards may give entries of the same stream name and id
        self.place: Place = (session.shard.index, given.stream, given.entry)
        self.cancel_requested = False  # set by progress(), renew() and the consumer's beat()
        self.lost = False  # reclaimed: stop the work, its result will be refused

    def __repr__(self) -> str:
        return f"<Delivery {self.message.queue} {self.task_id} attempt {self.attempt} from {self.tier}>"

    @property
    def tier(self) -> Tier:
        """The lane it came from; a suspect runs alone."""
        return self.given.tier

    @property
    def stream(self) -> str:
        return self.given.stream

    @property
    def entry_id(self) -> str:
        return self.given.entry.decode()

    @property
    def deadline_ms(self) -> int:
        """By the clock of the Redis server; 0: none."""
        return self.given.deadline_ms

    @property
    def task_id(self) -> str:
        return self.message.task_id

    @property
    def attempt(self) -> int:
        return self.message.attempt

    @property
    def deliveries(self) -> int:
        """Engines that died with it so far."""
        return self.message.deliveries

    @property
    def losses(self) -> int:
        """Nodes that got lost with it so far."""
        return self.message.losses

    @property
    def timeout_ms(self) -> int:
        """How long from the claim; 0: no limit."""
        return self.message.timeout_ms

    def progress(self, progress: Any) -> bool:
        """Report progress (any JSON value) and renew. False: stop, it was cancelled or lost (see the flags)."""
        return self._consumer.renew(self, progress)

    def renew(self) -> bool:
        """Say that the work goes on. False: stop, it was cancelled or lost (see the flags)."""
        return self._consumer.renew(self)

    def settle(self, outcome: Outcome) -> Settled:
        """Settle now, without claiming. LOST: another engine owns it, the result does not count."""
        return self._consumer.exchange([(self, outcome)], free=0).settled[0]

    def release(self) -> bool:
        """Put it back, uncounted, as the first in its queue. False: it wasn't ours any more."""
        return self.task_id in self._consumer.release([self])
