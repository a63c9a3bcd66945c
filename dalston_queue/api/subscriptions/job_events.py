"""The source of job events: read for all subscriptions of a web process together, two statements per poll.

    subscription asks -> a poll: read_changes for all cursors, still_allowed for those not checked lately -> its answer

A subscription asks for the next changes when its stream has sent the last ones. A slow client asks less often; nothing
is queued for it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from django.conf import settings
from django.utils import timezone

from dalston_queue.api.subscriptions.changes import Cursor, JobChanges, read_changes
from dalston_queue.api.subscriptions.subscriber import Subscriber, still_allowed
from dalston_queue.polling import subscribed
from dalston_queue.slots import has_room

RECHECK_S = 3.0
"""How long a stream may outlive its token."""


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
    # Set by a poll. A new subscription has asked already, so that its first poll answers.
    answer: Future[JobChanges | Closed] = field(default_factory=Future)

    def ask(self) -> None:
        """Ask for the changes since the cursor. Only when the last answer was taken."""
        self.answer = Future()


Answers = dict[Subscription, JobChanges | Closed]


class JobEvents:
    """A source of `polling`. After an error subscribers get their heartbeat, and the next poll reads for the same
    cursors."""

    tick_s = 0.5
    threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job-events")

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._lock = threading.Lock()

    def has_room(self, subscriber: Subscriber) -> bool:
        with self._lock:
            own = sum(each.subscriber.holder == subscriber.holder for each in self._subscriptions)
            return has_room(own, len(self._subscriptions), settings.DALSTON_MAX_EVENT_STREAMS)

    @contextmanager
    def subscribe(self, subscriber: Subscriber, cursor: Cursor) -> Iterator[Subscription]:
        subscription = Subscription(subscriber, cursor)
        with self._lock:
            self._subscriptions.add(subscription)
        try:
            with subscribed("job events", lambda: self):
                yield subscription
        finally:
            with self._lock:
                self._subscriptions.discard(subscription)

    def poll(self) -> None:
        with self._lock:
            asking = [each for each in self._subscriptions if not each.answer.done()]
        if not asking:
            return
        for subscription, answer in _answers(asking).items():
            subscription.answer.set_result(answer)


def _answers(asking: Collection[Subscription]) -> Answers:
    if _server_is_stopping():
        return dict.fromkeys(asking, Closed.STOPPING)
    refused = _refused(asking)
    changes = read_changes([each.cursor for each in asking])
    return {
        each: Closed.NOT_ALLOWED if each in refused else changes.get(each.cursor, Closed.JOB_GONE) for each in asking
    }


def _refused(asking: Collection[Subscription]) -> set[Subscription]:
    due = [each for each in asking if time.monotonic() - each.checked_at >= RECHECK_S]
    if not due:
        return set()
    allowed = still_allowed({each.subscriber for each in due}, timezone.now())
    for each in due:
        each.checked_at = time.monotonic()
    return {each for each in due if each.subscriber not in allowed}


def _server_is_stopping() -> bool:
    """uvicorn waits for open responses before it ends and offers no hook. Its handler of SIGTERM is a method of the
    server object, which has the flag."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


job_events = JobEvents()
