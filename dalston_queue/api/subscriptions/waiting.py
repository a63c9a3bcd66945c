"""Waiting requests: how many of a web process may wait, and whether the client of one has gone.

Each holds a thread, and the other requests need some too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest


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


CONNECTION = "dalston.connection"
"""Where the handler leaves the event loop and `receive` of a request: in its ASGI scope."""


@contextmanager
def leaving(request: HttpRequest) -> Iterator[Callable[[], bool]]:
    """A question that any thread may ask inside the block: has the client closed its connection?"""
    found = getattr(request, "scope", {}).get(CONNECTION)
    if found is None:  # not served by our handler
        yield lambda: False
        return
    loop, receive = found
    gone = asyncio.run_coroutine_threadsafe(_until_gone(receive), loop)
    try:
        yield gone.done
    finally:
        gone.cancel()


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
