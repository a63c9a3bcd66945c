"""Circuit breaker of one server, and the backoff between tries.

A server that is down refuses at once, which costs nothing and opens no breaker. A server that hangs keeps each caller
for the whole timeout. The first caller that times out opens the breaker; while it is open, one caller at a time tries
again.
"""

from __future__ import annotations

import math
import random
import threading
import time

OPEN_S = 2.0


class Breaker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._try_at = -math.inf
        self.is_open = False

    def allows(self) -> bool:
        """Whether this caller may ask the server: any while it is closed, one per `OPEN_S` while it is open."""
        if not self.is_open:
            return True
        with self._lock:
            now = time.monotonic()
            if now < self._try_at:
                return False
            self._try_at = now + OPEN_S
            return True

    def open(self) -> None:
        with self._lock:
            self.is_open, self._try_at = True, time.monotonic() + OPEN_S

    def close(self) -> None:
        self.is_open = False


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
