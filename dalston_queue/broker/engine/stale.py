"""An idle engine's reclaim of tasks whose owner is dead.

With a judge leading, only its verdicts count. Without one, an engine may act on its own observation: entries not
renewed for the stale threshold, of an owner whose beat counter did not move over as long by our own monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from dalston_queue import defaults
from dalston_queue.broker.operations.reclaim import VERDICT
from dalston_queue.broker.protocol.types import Cause, Role
from dalston_queue.broker.views.pages import PendingOrder

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class StaleRules(msgspec.Struct, frozen=True, kw_only=True):
    threshold_ms: int = defaults.STALE_THRESHOLD_MS
    max_deliveries: int = defaults.MAX_DELIVERIES
    max_losses: int = defaults.MAX_DELIVERIES_NODE_LOST


DEFAULT_RULES = StaleRules()


class StaleClaim:
    def __init__(self, broker: Broker, engine_id: str, queues: Sequence[str], rules: StaleRules) -> None:
        self._broker = broker
        self._engine_id = engine_id
        self._queues = queues
        self._rules = rules
        self._seen: dict[tuple[str, str], tuple[tuple[int, ...], float]] = {}  # (queue, owner): counter, since when

    def reclaim(self, now: float | None = None) -> int:
        """How many entries moved. `now` is monotonic seconds."""
        now = time.monotonic() if now is None else now
        moved = 0
        for queue in self._queues:
            for engine, cause in self._broker.registry.dead(queue).items():
                moved += self._reclaim(engine, queue, cause, VERDICT)
        if self._broker.lease(Role.ORCHESTRATOR, self._engine_id).leader() is None:
            moved += self._without_a_judge(now)
        return moved

    def _without_a_judge(self, now: float) -> int:
        moved = 0
        beats = self._broker.registry.beat_counters()
        for queue in self._queues:
            page = self._broker.pending(queue, order=PendingOrder.IDLE, min_idle_ms=self._rules.threshold_ms, limit=100)
            for owner in {entry.record.owner for entry in page.entries} - {self._engine_id}:
                counters = beats[owner].counters.get(queue, ()) if owner in beats else ()
                seen, since = self._seen.get((queue, owner), (None, now))
                if seen != counters:
                    self._seen[queue, owner] = (counters, now)
                elif now - since >= self._rules.threshold_ms / 1000:
                    moved += self._reclaim(owner, queue, Cause.NODE_LOST, counters)
        return moved

    def _reclaim(self, owner: str, queue: str, cause: Cause, judged: tuple[int, ...] | str) -> int:
        rules = self._rules
        taken = self._broker.reclaim(
            owner,
            [queue],
            cause,
            judged={queue: judged},
            max_deliveries=rules.max_deliveries,
            max_losses=rules.max_losses,
            at_most=1,  # of a lost node: this engine claims it, and comes back for the next
        )
        return taken.moved
