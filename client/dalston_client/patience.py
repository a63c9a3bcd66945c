"""Whether and when a call is tried again: exponential with full jitter, not before Retry-After, not past the bound."""

from __future__ import annotations

import random

from dalston_client.errors import Busy, DalstonError, Unavailable, Unreachable

FIRST_S, LONGEST_S = 0.25, 5.0


def may_pass(problem: DalstonError, *, repeatable: bool, nothing_sent: bool) -> bool:
    """Whether trying again can help and cannot hurt.

    Busy is said before anything happens. After any other failure a call may have worked without our knowing it, so
    only a call that may be repeated is.
    """
    if isinstance(problem, Busy):
        return True
    if isinstance(problem, Unreachable):
        return repeatable or nothing_sent
    return isinstance(problem, Unavailable) and repeatable and problem.status in {502, 503, 504}


def pause(
    attempt: int, waited: float, bound: float, retry_after: float | None, chance: float | None = None
) -> float | None:
    """Seconds until the next try, or None: it would come too late. `attempt` counts from 0, `chance` is from 0 to 1."""
    chance = random.random() if chance is None else chance  # noqa: S311 - spreads load, hides nothing
    seconds = max(retry_after or 0.0, chance * min(LONGEST_S, FIRST_S * 2**attempt))
    return seconds if waited + seconds <= bound else None
