"""Retries of a call: whether another try can help, and the exponential backoff with full jitter before it."""

from __future__ import annotations

import random

from dalston_client.errors import Busy, DalstonError, Unavailable, Unreachable

FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.25, 5.0


def may_retry(problem: DalstonError, *, repeatable: bool, nothing_sent: bool) -> bool:
    """Whether another try can help and does no harm.

    The server answers Busy before it does anything. After any other failure the call may have worked without our
    knowing, so only a repeatable call is sent again.
    """
    if isinstance(problem, Busy):
        return True
    if isinstance(problem, Unreachable):
        return repeatable or nothing_sent
    return isinstance(problem, Unavailable) and repeatable and problem.status in {502, 503, 504}


def backoff(
    attempt: int, waited: float, timeout: float, retry_after: float | None, chance: float | None = None
) -> float | None:
    """Seconds until the next try; None: past the timeout. `attempt` counts from 0, `chance` is from 0 to 1."""
    chance = random.random() if chance is None else chance  # noqa: S311 - spreads load, hides nothing
    seconds = max(retry_after or 0.0, chance * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**attempt))
    return seconds if waited + seconds <= timeout else None
