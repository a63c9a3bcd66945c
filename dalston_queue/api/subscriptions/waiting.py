"""Slots for waiting requests, and whether the client of a waiting request has disconnected.

Each waiting request holds a thread of the web process, and the other requests need some too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest

from dalston_queue.slots import Slots

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
