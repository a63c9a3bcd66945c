"""Circuit breaker of one server: after a call that got no answer, nobody else waits for it.

A server that is down refuses at once and costs nothing, so that is not remembered. One that hangs keeps each caller for
the whole timeout. The first caller to notice opens the breaker; while it is open, one caller at a time tries again.
"""

from __future__ import annotations

import math
import threading
import time

OPEN_S = 2.0


class Breaker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._try_at = -math.inf
        self.is_open = False

    def allows(self) -> bool:
        """Whether this caller may ask the server: everybody while it is closed, one each `OPEN_S` while it is open."""
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
