"""For a process that answers people: nobody waits again for a server that has just been found to hang.

A server that is down refuses at once and costs nothing, so that is not remembered. One that hangs keeps each caller for
the whole timeout: the first to notice tells the others, and after a while one at a time tries again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from dalston_queue.broker.errors import Unavailable

AWAY_S = 2.0


class Haste:
    """Of one shard."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        """prepare: what to let go of before a call that may wait."""
        self._prepare = prepare
        self._lock = threading.Lock()
        self._hung = False
        self._ask_at = -math.inf

    @contextmanager
    def asking(self, where: str) -> Iterator[None]:
        """Around each call. Raises Unavailable while the server is known to hang."""
        if self._hung:
            self._take_turn(where)
        self._prepare()
        try:
            yield
        except Unavailable as error:
            if isinstance(error.__cause__, redis.TimeoutError):
                self._hung, self._ask_at = True, time.monotonic() + AWAY_S
            raise
        self._hung = False

    def _take_turn(self, where: str) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._ask_at:
                raise Unavailable(f"{where} did not answer a moment ago, and was not asked again")
            self._ask_at = now + AWAY_S
