"""The orchestrators' end: read events of all queues, acknowledge them after the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dalston_queue.broker.messages import Event, Malformed

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class EventReader:
    """One per orchestrator process; not shared between threads. Deliveries repeat after errors: apply by (attempt, seq)."""

    def __init__(self, broker: Broker, consumer_name: str) -> None:
        raise NotImplementedError

    def read(self, count: int = 200, block_ms: int = 1000) -> list[Event | Malformed]:
        """Up to `count` events per queue stream, [] after block_ms. Raises Unavailable when Redis is away; the next
        read then brings again what this reader got but has not acknowledged."""
        raise NotImplementedError

    def ack(self, events: Sequence[Event | Malformed]) -> int:
        """After the commit: acknowledge, delete, and clear the tombstones of ended attempts. One script per queue.
        Also the way to be rid of a Malformed once it is dead-lettered. Returns how many were still there."""
        raise NotImplementedError

    def take_over(self, idle_ms: int = 60_000, count: int = 200) -> list[Event | Malformed]:
        """Events that another reader got and did not acknowledge for idle_ms. Call it now and then; a cursor is kept."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the groups where nothing is pending for this reader."""
        raise NotImplementedError
