"""What the circuit breaker of an engine counts: its tasks' outcomes. The rules are the broker's."""

from __future__ import annotations

from dalston_queue.broker.engine.breaker import Breaker

from .outcomes import Cancelled, Failed, Outcome, Retry


def record(breaker: Breaker, outcome: Outcome, now: float) -> None:
    """A rejected task is no failure of the engine."""
    if not isinstance(outcome, Cancelled):
        breaker.record(not isinstance(outcome, Failed | Retry), now)
