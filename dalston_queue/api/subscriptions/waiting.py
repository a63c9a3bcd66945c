"""Slots for waiting requests, and whether the client of a waiting request has disconnected.

Each waiting request holds a thread of the web process, and the other requests need some too.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest


def has_room(own: int, taken: int, limit: int) -> bool:
    """Whether a holder may take one more slot: while fewer are its own than are free. So the first holder gets at most
    half of them, the next half of the rest, and there is always one for a holder that has none. Pure."""
    return own < limit - taken


class Slots:
    """A semaphore that never blocks, with a share for each holder."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, holder: str | None = None) -> Iterator[bool]:
        """False: no slot is free, or the holder has its share. Without a holder the first that comes gets the slot."""
        taken = self._acquire(holder)
        try:
            yield taken
        finally:
            if taken:
                self._release(holder)

    def _acquire(self, holder: str | None) -> bool:
        with self._lock:
            own = 0 if holder is None else self._taken[holder]
            if not has_room(own, self._taken.total(), self.limit):
                return False
            self._taken[holder or ""] += 1
            return True

    def _release(self, holder: str | None) -> None:
        with self._lock:
            self._taken[holder or ""] -= 1
            self._taken += Counter()  # drops those with none


WAIT_SLOTS = Slots(500)
"""Shared by the waits for tasks, jobs and nodes, with a share for each project and person. Without a free slot `wait`
is ignored: the answer shows the state as it is. The polls of workers have slots of their own, by a setting
(worker_polling.py)."""


CONNECTION = "dalston.connection"
"""In the ASGI scope of a request: the event loop and `receive`, put there by our handler."""


@contextmanager
def disconnection(request: HttpRequest) -> Iterator[Callable[[], bool]]:
    """A function that any thread may call inside the block: has the client closed its connection?"""
    found = getattr(request, "scope", {}).get(CONNECTION)
    if found is None:  # not served by our handler
        yield lambda: False
        return
    loop, receive = found
    gone = asyncio.run_coroutine_threadsafe(_until_disconnect(receive), loop)
    try:
        yield gone.done
    finally:
        gone.cancel()


async def _until_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
