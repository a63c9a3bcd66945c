"""Tasks that an engine with one worker thread claims ahead while its tasks are quick, for a trip to Redis takes longer.

They wait here, unstarted, for a moment at most: what has not begun by then is given back, uncounted, so that no task
stands behind a long one while another engine is idle. The results of one batch are told together, by the same moment.
Any engine that is told of more tasks than it can run, say again after a lost reply, keeps the rest here as well.
Only whoever has the runner's turn may touch it. See docs/adr/0023-claiming-quick-tasks-ahead.md.
"""

from __future__ import annotations

from collections import deque

from dalston_queue.broker import Delivery

QUICK = 0.001  # seconds: a task that took less was quick
TRUSTED_AFTER = 64  # quick tasks in a row, each a success: who has a long one among 64 never claims ahead
AT_ONCE = 8  # more gives less and less, and more is at stake when the process dies
PATIENCE = 0.02  # seconds from the answer that brought them: twice what eight quick tasks take, for a slow moment


class Ahead:
    def __init__(self, capacity: int, *, enabled: bool) -> None:
        self.most = AT_ONCE if enabled else capacity
        self._capacity = capacity
        self.waiting: deque[Delivery] = deque()  # between turns only while every worker has a task
        self.until = 0.0  # by the monotonic clock: when nothing of the last batch may wait here any more
        self._in_a_row = 0

    def record(self, took: float, *, done: bool) -> None:
        """A task ended: only who has been quick for a while is trusted to be quick again."""
        self._in_a_row = self._in_a_row + 1 if done and took < QUICK else 0

    @property
    def allowed(self) -> int:
        """How many tasks an engine with empty hands may claim."""
        return self.most if self._in_a_row >= TRUSTED_AFTER else self._capacity

    def keep(self, claimed: Delivery, now: float) -> None:
        if not self.waiting:
            self.until = now + PATIENCE
        self.waiting.append(claimed)

    def drop(self, claimed: Delivery) -> bool:
        """Whether it was waiting here; it isn't any more."""
        if claimed not in self.waiting:
            return False
        self.waiting.remove(claimed)
        return True

    def give_up(self) -> list[Delivery]:
        given_up = list(self.waiting)
        self.waiting.clear()
        return given_up
