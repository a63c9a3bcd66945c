"""A claimed task: an object that can report progress, renew, settle and hand itself back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dalston_queue.broker.messages import Outcome, TaskMessage
from dalston_queue.broker.types import Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.consumer import Consumer


class Claimed:
    """Safe to use from the thread that runs the task; calls are serialised by its consumer."""

    message: TaskMessage
    deliveries: int  # engines that died with it so far
    losses: int
    tier: Tier  # the lane it came from; a suspect runs alone
    deadline_ms: int  # by the clock of the Redis server; 0: none
    timeout_ms: int  # how long from the claim; 0: no limit
    stream: str
    entry_id: str
    cancel_requested: bool  # set by progress() and by the consumer's beat()
    lost: bool  # taken back: stop the work, its result will be refused

    def progress(self, progress: Any) -> bool:
        """Report progress (any JSON value) and renew. False: stop, it was cancelled or lost (see the flags)."""
        raise NotImplementedError

    def renew(self) -> bool:
        """Say that the work goes on. False: stop, it was cancelled or lost (see the flags)."""
        raise NotImplementedError

    def settle(self, outcome: Outcome) -> Settled:
        """Settle now, without claiming. LOST: someone else owns it, the result does not count."""
        raise NotImplementedError

    def hand_back(self) -> bool:
        """Put it back to the front of the line, uncounted. False: it wasn't ours any more."""
        raise NotImplementedError
