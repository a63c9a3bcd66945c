"""Shared polling: one poll per tick, key and process, however many subscribe to it.

    subscriber -> updates(key, make) or subscribed(key, make) -> a tick: Source.poll() -> wakes the subscribers

A source is made for the first subscriber of its key and dropped with the last one. It keeps what it read, and each
subscriber takes what it has not seen yet: a slow subscriber wakes less often, and nothing piles up for it.

Polls run on threads, so that neither an event loop nor a request waits for Postgres or Redis. An event loop on a thread
of its own times them: subscribers may be coroutines of any loop (the dashboard's WebSockets, server-sent events of the
API) or plain threads (long polls).

A subscriber may have a holder: the polls of one person's sources are few at a time, so that a hundred slow searches of
one leave threads to the pages of others. A source with several holders runs in the turn of any of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
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
POLLS_OF_HOLDER = 2
"""At a time. A source has four threads or more."""


class Gone(LookupError):
    """What the source polls was deleted and will not come back."""


class Source(Protocol):
    """What is polled. `tick_s` and `threads` say how often and where."""

    tick_s: float
    threads: ThreadPoolExecutor

    def poll(self) -> None:
        """Read, and keep what subscribers ask for. Raises Gone; after any other error the next tick tries again."""


S = TypeVar("S", bound=Source)


class _Turns:
    """Which polls run. Used in the event loop that times them."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.waiting: dict[_Poller, asyncio.Future[str]] = {}

    async def take(self, poller: _Poller) -> str:
        """Whose turn it is used for."""
        if (holder := self._free(poller)) is not None:
            self.running[holder] += 1
            return holder
        called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting[poller] = called
        try:
            holder = await called
        except asyncio.CancelledError:  # the last subscriber has left
            self.waiting.pop(poller, None)
            if called.done() and not called.cancelled():  # called in that very moment
                self.end(called.result())
            raise
        return holder

    def end(self, holder: str) -> None:
        self.running[holder] -= 1
        self.running += Counter()  # drops those with none
        self.call_next()

    def call_next(self) -> None:
        for poller in list(self.waiting):
            if not self.waiting[poller].cancelled() and (holder := self._free(poller)) is not None:
                self.running[holder] += 1
                self.waiting.pop(poller).set_result(holder)

    def _free(self, poller: _Poller) -> str | None:
        with _lock:
            holders = {holder for holder, _ in poller.subscribers.values()}
        return next((each for each in holders if not each or self.running[each] < POLLS_OF_HOLDER), None)


class _Poller:
    def __init__(self, key: Hashable, source: Source) -> None:
        self.key = key
        self.source = source
        self.subscribers: dict[object, tuple[str, Callable[[], object]]] = {}  # each with its holder
        self.polls = 0
        self.is_gone = False
        self.running: Future[None] = asyncio.run_coroutine_threadsafe(self._run(), _loop())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_gone:
            turn = await _turns.take(self)
            started = loop.time()
            poll = self.source.threads.submit(self._poll)
            # Not when this task is cancelled: the thread goes on.
            poll.add_done_callback(lambda _, turn=turn: loop.call_soon_threadsafe(_turns.end, turn))  # type: ignore[misc]
            try:
                await asyncio.wrap_future(poll)
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
        for _, notify in waiting:
            with suppress(RuntimeError):  # the subscriber's event loop is closed
                notify()


_pollers: dict[Hashable, _Poller] = {}
_lock = threading.Lock()
_turns = _Turns()


@contextmanager
def subscribed(key: Hashable, make: Callable[[], S]) -> Iterator[S]:
    """The source of this key, polled while the block lasts. Its poll() wakes those whose answer it has read."""
    with _subscription(key, make, "", lambda: None) as poller:
        yield poller.source


async def updates(key: Hashable, make: Callable[[], S], holder: str = "") -> AsyncGenerator[S]:
    """The source of this key, after each poll; a slow subscriber skips polls. Ends when the source is gone. Without a
    holder its polls wait for no turn."""
    loop, polled = asyncio.get_running_loop(), asyncio.Event()
    with _subscription(key, make, holder, lambda: loop.call_soon_threadsafe(polled.set)) as poller:
        seen = 0
        while not poller.is_gone:
            if poller.polls == seen:
                await polled.wait()
                polled.clear()
                continue
            seen = poller.polls
            yield poller.source


@contextmanager
def _subscription(key: Hashable, make: Callable[[], Any], holder: str, notify: Callable[[], object]) -> Iterator[Any]:
    subscriber = object()
    with _lock:
        poller = _pollers.get(key)
        if poller is None:
            poller = _pollers[key] = _Poller(key, make())
        poller.subscribers[subscriber] = (holder, notify)
    _loop().call_soon_threadsafe(_turns.call_next)  # the poll may wait for the turn of another holder
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
