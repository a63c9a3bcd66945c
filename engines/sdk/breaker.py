"""Circuit breaker of an engine: after five failures in a row no claim for a minute, then one trial task."""

from __future__ import annotations

from dataclasses import dataclass

from .outcomes import Cancelled, Failed, Outcome, Retry


@dataclass(slots=True)
class Breaker:
    """`failures` in a row open it for `open_s` seconds; 0 failures means that it never opens."""

    failures: int
    open_s: float
    in_a_row: int = 0
    opened_at: float | None = None

    def record(self, outcome: Outcome, now: float) -> bool:
        """True if this outcome opened or closed the breaker. A failed trial task opens it again."""
        if isinstance(outcome, Cancelled):
            return False
        was_open, ok = self.is_open, not isinstance(outcome, Failed | Retry)
        self.in_a_row = 0 if ok else self.in_a_row + 1
        if ok:
            self.opened_at = None
        elif self.failures and self.in_a_row >= self.failures:
            self.opened_at = now
        return self.is_open != was_open

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def admits(self, free: int, running: int, now: float) -> int:
        """How many of the free slots may be filled: all, none, or one for the trial task."""
        if self.opened_at is None:
            return free
        if now - self.opened_at < self.open_s or running:
            return 0
        return min(free, 1)
