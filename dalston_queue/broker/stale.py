"""An engine's own stale claim: taking back work from owners that are dead.

With a judge leading, only its verdicts count. Without one, an engine may act on its own observation: entries not
renewed for the stale threshold, of an owner whose beat counter did not move over as long by our own monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dalston_queue.broker.pending import PendingOrder
from dalston_queue.broker.recovery import VERDICT
from dalston_queue.broker.types import Cause, Role

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

STALE_THRESHOLD_MS = 10 * 60 * 1000


class StaleClaim:
    def __init__(
        self, broker: Broker, engine_id: str, queues: Sequence[str], threshold_ms: int = STALE_THRESHOLD_MS
    ) -> None:
        self._broker = broker
        self._engine_id = engine_id
        self._queues = queues
        self._threshold_ms = threshold_ms
        self._seen: dict[tuple[str, str], tuple[tuple[int, ...], float]] = {}  # (queue, owner): counter, since when

    def take_back(self, now: float | None = None) -> int:
        """How many entries moved. `now` is monotonic seconds."""
        now = time.monotonic() if now is None else now
        moved = 0
        for queue in self._queues:
            for engine, cause in self._broker.registry.dead(queue).items():
                moved += self._broker.take_back(engine, [queue], cause, judged={queue: VERDICT}).moved
        if self._broker.lease(Role.ORCHESTRATOR, self._engine_id).leader() is None:
            moved += self._without_a_judge(now)
        return moved

    def _without_a_judge(self, now: float) -> int:
        moved = 0
        pulses = self._broker.registry.pulses()
        for queue in self._queues:
            page = self._broker.pending(queue, order=PendingOrder.IDLE, min_idle_ms=self._threshold_ms, limit=100)
            for owner in {entry.record.owner for entry in page.entries} - {self._engine_id}:
                counters = pulses[owner].counters.get(queue, ()) if owner in pulses else ()
                seen, since = self._seen.get((queue, owner), (None, now))
                if seen != counters:
                    self._seen[queue, owner] = (counters, now)
                elif now - since >= self._threshold_ms / 1000:
                    moved += self._broker.take_back(owner, [queue], Cause.NODE_LOST, judged={queue: counters}).moved
        return moved
