"""An engine's end of the queue: one session per queue, one serial caller, one round trip per task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dalston_queue.broker.claimed import Claimed
from dalston_queue.broker.messages import Malformed, Outcome
from dalston_queue.broker.types import Settled

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class Exchanged(msgspec.Struct):
    """What one exchange brought."""

    claimed: list[Claimed]
    settled: list[Settled]  # in the order of the settlements given
    buried: list[Malformed]  # unreadable entries met on the way; already in the event stream, for the log


class Beat(msgspec.Struct):
    """What changed since the last beat."""

    cancelled: list[Claimed]  # still ours: stop them and settle Cancelled()
    lost: list[Claimed]  # taken back: stop them, don't settle
    given_again: list[Claimed]  # ours, but not held (a reply got lost): run them


class Consumer:
    """Open it, then loop: exchange(...), and wait(...) when nothing came. All calls may raise Unavailable (repeat) or
    Fenced (drop what is held, call open() again). Safe to share between threads; calls are serialised by a lock,
    except wait(), which has its own connection."""

    def __init__(
        self,
        broker: Broker,
        engine_id: str,
        queues: Sequence[str],
        capabilities: Iterable[str] = (),
        capacity: int = 1,
        *,
        max_suspects: int = 2,
        max_backlog: int = 50_000,
    ) -> None:
        """max_suspects: how many suspects of one queue may run at once, on all engines together.
        max_backlog: events waiting above which this engine claims nothing."""
        raise NotImplementedError

    @property
    def held(self) -> list[Claimed]:
        """What was claimed and is neither settled, handed back nor lost."""
        raise NotImplementedError

    def open(self) -> None:
        """Open the sessions. A repeated open fences the previous session of the same engine id."""
        raise NotImplementedError

    def exchange(self, settlements: Sequence[tuple[Claimed, Outcome]] = (), free: int | None = None) -> Exchanged:
        """Settle these and claim up to `free` (default: capacity minus what is held), in one round trip per queue."""
        raise NotImplementedError

    def claim(self, n: int | None = None) -> list[Claimed]:
        """Only claim."""
        raise NotImplementedError

    def wait(self, timeout: float = 1.0) -> bool:
        """Sleep until something may be there. Follows new lanes. Never raises on a lost connection: it backs off."""
        raise NotImplementedError

    def beat(self, progress: dict[str, Any] | None = None) -> Beat:
        """Say what is held (renewing it) and learn what changed. Call it about once a second while anything runs, and
        after any Unavailable. progress: by task id, reported on the way. Doesn't count as the engine's heartbeat:
        that is registry.beat, by the supervisor or by the engine that runs alone."""
        raise NotImplementedError

    def hand_back(self, claimed: Sequence[Claimed] | None = None) -> list[str]:
        """Give back (default: everything held), uncounted, to the front of the line. Returns the task ids given."""
        raise NotImplementedError

    def recover(self) -> int:
        """The engine's own stale claim: take back what owners judged dead hold in our queues, so that the next claim
        gets it. At start and when idle. Returns how many entries moved."""
        raise NotImplementedError

    def close(self) -> None:
        """Hand back what is held, end the sessions, leave the groups. Idempotent."""
        raise NotImplementedError
