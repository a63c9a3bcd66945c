"""The circuit breaker of an engine, pure: after five failures in a row it claims nothing for a minute.

Then it is half-open: up to three trial tasks run. If all of them succeed it closes, one that fails opens it again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec

from dalston_queue import defaults


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerRules(msgspec.Struct, frozen=True):
    failures: int = defaults.BREAKER_FAILURES  # in a row; 0: it never opens
    open_s: float = defaults.BREAKER_OPEN_S
    trials: int = defaults.BREAKER_TRIALS


class Breaker(msgspec.Struct):
    """Times are seconds of one clock: monotonic in an engine, of the day for a worker over HTTP."""

    rules: BreakerRules = BreakerRules()
    in_a_row: int = 0
    opened_at: float | None = None
    passed: int = 0  # trial tasks that succeeded since it was half-open

    def record(self, succeeded: bool, now: float) -> bool:
        """True if this outcome opened or closed it."""
        was_open = self.is_open
        if not succeeded:
            self.in_a_row += 1
            self.passed = 0
            if self.rules.failures and self.in_a_row >= self.rules.failures:
                self.opened_at = now
        elif not was_open:
            self.in_a_row = 0
        elif self.state(now) is BreakerState.HALF_OPEN:  # not a task that had been claimed before it opened
            self.passed += 1
            if self.passed >= self.rules.trials:
                self.in_a_row, self.opened_at, self.passed = 0, None, 0
        return self.is_open != was_open

    @property
    def is_open(self) -> bool:
        """Also while it is half-open."""
        return self.opened_at is not None

    def state(self, now: float) -> BreakerState:
        if self.opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now - self.opened_at < self.rules.open_s else BreakerState.HALF_OPEN

    def admits(self, free: int, running: int, now: float) -> int:
        """How many of the free slots may be filled: all, none, or those of the trial tasks that are left."""
        match self.state(now):
            case BreakerState.CLOSED:
                return free
            case BreakerState.OPEN:
                return 0
            case BreakerState.HALF_OPEN:
                return max(0, min(free, self.rules.trials - self.passed - running))

    def why(self, now: float) -> str:
        """A sentence for people while it is not closed."""
        trials = f"{self.rules.trials} trial tasks" if self.rules.trials > 1 else "one trial task"
        failed = f"{self.in_a_row} tasks failed in a row"
        if self.state(now) is BreakerState.HALF_OPEN:
            return f"{failed}: half-open, it may run {trials}"
        return f"{failed}: no work for {self.rules.open_s:.0f} s, then {trials}"

    def stored(self) -> bytes:
        """What `read` needs, with the rules for those who only show it."""
        return msgspec.json.encode((self.in_a_row, self.opened_at, self.passed, self.rules))

    @classmethod
    def read(cls, raw: bytes | None, rules: BreakerRules | None = None) -> Self:
        """By `rules`, or by those it was stored with. Closed for a value that can't be read."""
        try:
            stored = msgspec.json.decode(raw or b"", type=tuple[int, float | None, int, BreakerRules])
        except msgspec.MsgspecError:
            return cls(rules or BreakerRules())
        in_a_row, opened_at, passed, then = stored
        return cls(rules or then, in_a_row, opened_at, passed)
