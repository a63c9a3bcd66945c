"""Loops of a process: when each last came round. A loop that stands still fails the /healthz of its process."""

from __future__ import annotations

import time
from collections.abc import Callable


class Loop:
    def __init__(self, name: str) -> None:
        self.name = name
        self._due = time.monotonic()

    def mark(self, rest_s: float = 0.0) -> None:
        """The loop came round; it will rest for so long before it works again."""
        self._due = time.monotonic() + rest_s

    def idle_s(self) -> float:
        """How long the loop has been silent, beyond a rest that it announced."""
        return max(0.0, time.monotonic() - self._due)

    def resting(self, wait: Callable[[float], bool]) -> Callable[[float], bool]:
        """`wait`, which sleeps for so many seconds, with a mark before and after."""

        def waiting(seconds: float) -> bool:
            self.mark(seconds)
            try:
                return wait(seconds)
            finally:
                self.mark()

        return waiting


HOUSEKEEPING = Loop("worker")
"""Of housekeeping's worker: each turn of its wait, and each duty."""
