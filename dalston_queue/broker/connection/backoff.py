"""How long to wait before the next try."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from first to cap, with jitter so that a hundred engines don't come back in the same moment."""

    def __init__(self, first: float = 0.05, cap: float = 2.0) -> None:
        self._first = first
        self._cap = cap
        self._current = first

    def next(self) -> float:
        pause = self._current * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        self._current = min(self._current * 2, self._cap)
        return pause

    def reset(self) -> None:
        self._current = self._first
