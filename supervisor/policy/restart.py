"""When a failed engine starts again: after 1 s, doubling up to 60 s; five failures in ten minutes are a crash loop."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
LOOP_FAILURES = 5
LOOP_WINDOW = 600.0
FORGIVEN_AFTER = 300.0  # seconds of being ready


@dataclass(frozen=True, slots=True)
class History:
    """The failures of one slot that still count."""

    failures: tuple[float, ...] = ()

    def failed(self, now: float, ready_for: float) -> History:
        """One more failure; a long healthy run before it forgives the earlier ones."""
        earlier = () if ready_for >= FORGIVEN_AFTER else self.failures
        return History((*(at for at in earlier if now - at < LOOP_WINDOW), now)[-64:])

    @property
    def looping(self) -> bool:
        return len(self.failures) >= LOOP_FAILURES

    def delay(self, jitter: float) -> float:
        """Until the next start. `jitter` is a random number from 0 to 1: half of the delay is left to it."""
        if self.looping:
            return LONGEST_DELAY
        full = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (len(self.failures) - 1))
        return full * (0.5 + jitter / 2)
