"""How many requests of a web process may wait at a time: each holds a thread, and the others need some too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Places:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[bool]:
        """False: none is left."""
        with self._lock:
            free = self._taken < self.limit
            self._taken += free
        try:
            yield free
        finally:
            with self._lock:
                self._taken -= free


WAITING = Places(500)
"""For everything that is waited for: tasks, jobs, nodes. Past this number `wait` is ignored: the answer shows the state
as it is. Workers' polls have a number of their own, which is a setting (worker_polling.py)."""
