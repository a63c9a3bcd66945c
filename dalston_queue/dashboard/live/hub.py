"""One snapshot per tick and web process for each thing that is looked at, shared by all who look.

A hub lives while it has viewers. Reading Postgres and Redis and rendering happen on threads of their own, so that
neither the event loop nor a request ever waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import structlog
from django.db import InterfaceError, OperationalError, connections

from dalston_queue.dashboard.live.board import Board, Fragment

log = structlog.get_logger(__name__)

TICK_S = 0.8
"""A change must be on the screen within a second: this leaves 0.2 s for reading, rendering and the wire."""

Produce = Callable[[], list[Fragment]]

threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="dashboard")


class Gone(LookupError):
    """What is looked at is no more, and will not come back: it was removed with the old history."""


class Hub:
    def __init__(self, produce: Produce, forget: Callable[[], object]) -> None:
        self._produce = produce
        self._forget = forget
        self._board = Board()
        self._news = asyncio.Condition()
        self._viewers = 0
        self._is_gone = False
        self._working: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncGenerator[str, None]:
        """HTML messages for one viewer: first everything, then, tick by tick, what changed; an end when it is gone."""
        self._viewers += 1
        self._working = self._working or asyncio.create_task(self._run())
        seen = 0
        try:
            while True:
                async with self._news:
                    while self._board.version <= seen and not self._is_gone:
                        await self._news.wait()
                if self._is_gone:
                    return
                messages, seen = self._board.since(seen), self._board.version
                for message in messages:
                    yield message
        finally:
            self._viewers -= 1
            if self._viewers == 0:
                self._working.cancel()
                self._forget()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                fragments = await loop.run_in_executor(threads, self._read)
            except Gone as error:
                log.info("dashboard.gone", error=str(error))
                async with self._news:
                    self._is_gone = True
                    self._news.notify_all()
                return
            # Viewers notice the silence and grey their numbers; the next tick tries again.
            except (OperationalError, InterfaceError) as error:
                log.warning("dashboard.database_unavailable", error=str(error))
            except Exception:
                log.exception("dashboard.snapshot_failed")
            else:
                self._board.update(fragments)
                async with self._news:
                    self._news.notify_all()
            await asyncio.sleep(max(0.05, _next_tick(started) - loop.time()))

    def _read(self) -> list[Fragment]:
        try:
            return self._produce()
        finally:
            connections.close_all()  # back to the pool: between two ticks nobody holds one


def _next_tick(started: float) -> float:
    """All hubs tick together: what they share (overview/latest.py) is read once per tick, and is fresh for each."""
    return (started // TICK_S + 1) * TICK_S


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = WeakKeyDictionary()


def hub_of(topic: str, produce: Produce) -> Hub:
    """The hub of this topic in this process (a web process has one event loop)."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    if topic not in hubs:
        hubs[topic] = Hub(produce, lambda: hubs.pop(topic))
    return hubs[topic]
