"""The poller of job events: one per web process reads for all subscriptions, two statements a tick.

    stream -> next_changes(subscription) -> a tick: read_changes for all cursors, still_allowed for those not checked
    lately -> JobChanges

A stream asks for the next changes when it has sent the last ones. A slow client asks less often; nothing is queued
for it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import structlog
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone

from dalston_queue.api.subscriptions.changes import Cursor, JobChanges, read_changes
from dalston_queue.api.subscriptions.subscriber import Subscriber, still_allowed

log = structlog.get_logger(__name__)

TICK_S = 0.5
RECHECK_S = 3.0
"""How long a stream may outlive its token."""

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job-events")


class Closed(StrEnum):
    """Why a subscription gets no more events."""

    JOB_GONE = "job_gone"
    NOT_ALLOWED = "not_allowed"
    STOPPING = "stopping"
    """This web process ends; another one continues from the same cursor."""


@dataclass(eq=False, slots=True)
class Subscription:
    subscriber: Subscriber
    cursor: Cursor
    checked_at: float = field(default_factory=time.monotonic)
    answer: asyncio.Future[JobChanges | Closed] | None = None

    @property
    def is_pending(self) -> bool:
        return self.answer is not None and not self.answer.done()


Answers = dict[Subscription, JobChanges | Closed]


class Poller:
    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._subscriptions) >= int(settings.DALSTON_MAX_EVENT_STREAMS)

    @contextmanager
    def subscribe(self, subscriber: Subscriber, cursor: Cursor) -> Iterator[Subscription]:
        """The poller runs while there is a subscription."""
        subscription = Subscription(subscriber, cursor)
        self._subscriptions.add(subscription)
        self._task = self._task or asyncio.create_task(self._run())
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions:
                self._task.cancel()
                self._task = None

    def next_changes(self, subscription: Subscription) -> asyncio.Future[JobChanges | Closed]:
        """Since the subscription's cursor, at the next tick that can read. Ask again only after that."""
        subscription.answer = asyncio.get_running_loop().create_future()
        return subscription.answer

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            pending = [each for each in self._subscriptions if each.is_pending]
            if _server_is_stopping():
                _answer(dict.fromkeys(pending, Closed.STOPPING))
            elif pending:
                try:
                    _answer(await loop.run_in_executor(_thread, _read, pending))
                # Subscribers get their heartbeat meanwhile; the next tick reads for the same cursors.
                except DatabaseError as error:
                    log.warning("job_events.database_unavailable", error=str(error))
                except Exception:
                    log.exception("job_events.not_read")
            await asyncio.sleep(max(0.05, started + TICK_S - loop.time()))


def _answer(answers: Answers) -> None:
    for subscription, answer in answers.items():
        if subscription.answer and not subscription.answer.done():
            subscription.answer.set_result(answer)


def _read(pending: Collection[Subscription]) -> Answers:
    try:
        refused = _refused(pending)
        changes = read_changes([each.cursor for each in pending])
        return {
            each: Closed.NOT_ALLOWED if each in refused else changes.get(each.cursor, Closed.JOB_GONE)
            for each in pending
        }
    finally:
        connections.close_all()  # to the pool: no connection is held between two ticks


def _refused(pending: Collection[Subscription]) -> set[Subscription]:
    due = [each for each in pending if time.monotonic() - each.checked_at >= RECHECK_S]
    if not due:
        return set()
    allowed = still_allowed({each.subscriber for each in due}, timezone.now())
    for each in due:
        each.checked_at = time.monotonic()
    return {each for each in due if each.subscriber not in allowed}


def _server_is_stopping() -> bool:
    """uvicorn waits for open responses before it ends and offers no hook; its signal handler is a method of it."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


poller = Poller()
"""Of this process: a web process has one event loop."""
