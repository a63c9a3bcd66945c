"""Notices that the client of a request that waits has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest

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
