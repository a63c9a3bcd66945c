"""One snapshot per tick and web process, shared by every viewer of the overview.

The hub works only while somebody is watching. Reading Postgres and Redis and rendering happen on one thread of its own,
so that neither the event loop nor a request ever waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import structlog
from django.db import connections

from dalston_queue.dashboard.board import Board, Fragment

log = structlog.get_logger(__name__)

TICK_S = 0.8
"""A change must be on the screen within a second: this leaves 0.2 s for reading, rendering and the wire."""

Produce = Callable[[], list[Fragment]]


class Hub:
    def __init__(self, produce: Produce, tick_s: float = TICK_S) -> None:
        self._produce = produce
        self._tick_s = tick_s
        self._board = Board()
        self._news = asyncio.Condition()
        self._viewers = 0
        self._working: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="overview")

    async def follow(self) -> AsyncGenerator[str, None]:
        """HTML messages for one viewer, without end: first everything, then, tick by tick, what changed."""
        self._viewers += 1
        # Woken up from idleness the board is old: the viewer waits for the first fresh tick.
        seen_tick = self._board.version if self._idle else max(0, self._board.version - 1)
        seen = 0
        try:
            self._work()
            while True:
                async with self._news:
                    while self._board.version <= seen_tick:
                        await self._news.wait()
                messages, seen = self._board.since(seen), self._board.version
                seen_tick = seen
                for message in messages:
                    yield message
        finally:
            self._viewers -= 1

    @property
    def _idle(self) -> bool:
        return self._working is None or self._working.done()

    def _work(self) -> None:
        if self._idle:
            self._working = asyncio.create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._viewers > 0:
            started = loop.time()
            try:
                fragments = await loop.run_in_executor(self._thread, self._read)
            except Exception:
                # Viewers notice the silence and grey their numbers; the next tick tries again.
                log.exception("overview.snapshot_failed")
            else:
                self._board.update(fragments)
                async with self._news:
                    self._news.notify_all()
            await asyncio.sleep(max(0.05, started + self._tick_s - loop.time()))

    def _read(self) -> list[Fragment]:
        try:
            return self._produce()
        finally:
            connections.close_all()  # back to the pool: between two ticks nobody holds one


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub_of(produce: Produce) -> Hub:
    """The hub of this process: a web process has one event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(produce)
    return _hubs[loop]
