"""Shared polling: one poll per tick, key and process, however many subscribe to it.

    subscriber -> updates(key, make) or subscribed(key, make) -> a tick: Source.poll() -> wakes the subscribers

A source is made for the first subscriber of its key and dropped with the last one. It keeps what it read, and each
subscriber takes what it has not seen yet: a slow subscriber wakes less often, and nothing piles up for it.

Polls run on threads, so that neither an event loop nor a request waits for Postgres or Redis. An event loop on a thread
of its own times them: subscribers may be coroutines of any loop (the dashboard's WebSockets, server-sent events of the
API) or plain threads (long polls).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Protocol, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connections

from dalston_queue.broker.errors import BrokerError
from dalston_queue.health import outages

log = structlog.get_logger(__name__)

MIN_PAUSE_S = 0.05


class Gone(LookupError):
    """What the source polls was deleted and will not come back."""


class Source(Protocol):
    """What is polled. `tick_s` and `threads` say how often and where."""

    tick_s: float
    threads: ThreadPoolExecutor

    def poll(self) -> None:
        """Read, and keep what subscribers ask for. Raises Gone; after any other error the next tick tries again."""


S = TypeVar("S", bound=Source)


class _Poller:
    def __init__(self, key: Hashable, source: Source) -> None:
        self.key = key
        self.source = source
        self.subscribers: dict[object, Callable[[], object]] = {}
        self.polls = 0
        self.is_gone = False
        self.running: Future[None] = asyncio.run_coroutine_threadsafe(self._run(), _loop())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_gone:
            started = loop.time()
            try:
                await loop.run_in_executor(self.source.threads, self._poll)
            except Gone as error:
                log.info("polling.gone", key=self.key, error=str(error))
                self.is_gone = True
                self._wake()
            # Subscribers get no update; the next tick tries again.
            except (OperationalError, InterfaceError, BrokerError) as error:
                if not outages.report(error):
                    log.warning("polling.refused", key=self.key, error=str(error))
            except Exception:
                log.exception("polling.failed", key=self.key)
            else:
                self.polls += 1
                self._wake()
            # All pollers of a tick wake together: what they share is read once, and is fresh for each.
            due = (started // self.source.tick_s + 1) * self.source.tick_s
            await asyncio.sleep(max(MIN_PAUSE_S, due - loop.time()))

    def _poll(self) -> None:
        try:
            self.source.poll()
        finally:
            connections.close_all()  # back to the pool: no connection is held between two ticks

    def _wake(self) -> None:
        with _lock:
            waiting = list(self.subscribers.values())
        for notify in waiting:
            with suppress(RuntimeError):  # the subscriber's event loop is closed
                notify()


_pollers: dict[Hashable, _Poller] = {}
_lock = threading.Lock()


@contextmanager
def subscribed(key: Hashable, make: Callable[[], S]) -> Iterator[S]:
    """The source of this key, polled while the block lasts. Its poll() wakes those whose answer it has read."""
    with _subscription(key, make, lambda: None) as poller:
        yield poller.source


async def updates(key: Hashable, make: Callable[[], S]) -> AsyncGenerator[S]:
    """The source of this key, after each poll; a slow subscriber skips polls. Ends when the source is gone."""
    loop, polled = asyncio.get_running_loop(), asyncio.Event()
    with _subscription(key, make, lambda: loop.call_soon_threadsafe(polled.set)) as poller:
        seen = 0
        while not poller.is_gone:
            if poller.polls == seen:
                await polled.wait()
                polled.clear()
                continue
            seen = poller.polls
            yield poller.source


@contextmanager
def _subscription(key: Hashable, make: Callable[[], Any], notify: Callable[[], object]) -> Iterator[Any]:
    subscriber = object()
    with _lock:
        poller = _pollers.get(key)
        if poller is None:
            poller = _pollers[key] = _Poller(key, make())
        poller.subscribers[subscriber] = notify
    try:
        yield poller
    finally:
        with _lock:
            del poller.subscribers[subscriber]
            if not poller.subscribers:
                poller.running.cancel()
                del _pollers[key]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Times the polls of this process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="polling", daemon=True).start()
    return loop
