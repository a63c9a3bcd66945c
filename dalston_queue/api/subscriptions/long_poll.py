"""Long poll: `?wait=30` answers as soon as the task or the job is over, or when the time is up.

All waiting requests of a web process share one poll per model, which asks Postgres for all rows awaited. A waiting
request holds a thread of the server, but no database connection.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any
from uuid import UUID

from django.db.models import Manager
from ninja import Query

from dalston_queue.api.subscriptions.waiting import WAIT_SLOTS
from dalston_queue.database import before_wait
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER
from dalston_queue.models import Job, Task
from dalston_queue.polling import subscribed

MAX_WAIT_S = 30.0
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for it to be over.")]


class LongPoll:
    """Requests that wait until rows of one model are over. A source of `polling`, polled while a request waits."""

    tick_s = 0.1
    threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="long-poll")

    def __init__(self, manager: Manager[Any], over: Collection[str]) -> None:
        self._rows: Any = manager
        self._over = sorted(over)
        self._lock = threading.Lock()
        self._awaited: dict[UUID, list[threading.Event]] = {}

    def wait(self, row_id: UUID, seconds: float, holder: str) -> None:
        """Returns when the row is over, at the latest after `seconds`. The caller reads the row afterwards."""
        if seconds <= 0:
            return
        with WAIT_SLOTS.take(holder) as free:
            if free:
                self.wait_in_slot(row_id, min(seconds, MAX_WAIT_S))

    def wait_in_slot(self, row_id: UUID, seconds: float) -> None:
        """The same for a caller that has a slot."""
        over = threading.Event()
        self._add(row_id, over)
        try:
            before_wait()
            with subscribed(f"long poll of {self._rows.model.__name__}", lambda: self):
                over.wait(seconds)
        finally:
            self._remove(row_id, over)

    def poll(self) -> None:
        with self._lock:
            awaited = list(self._awaited)
        if not awaited:
            return
        found = list(self._rows.filter(pk__in=awaited, status__in=self._over).values_list("pk", flat=True))
        with self._lock:
            for row_id in found:
                for over in self._awaited.get(row_id, ()):
                    over.set()

    def _add(self, row_id: UUID, over: threading.Event) -> None:
        with self._lock:
            self._awaited.setdefault(row_id, []).append(over)

    def _remove(self, row_id: UUID, over: threading.Event) -> None:
        with self._lock:
            waiting = self._awaited[row_id]
            waiting.remove(over)
            if not waiting:
                del self._awaited[row_id]


tasks = LongPoll(Task.objects, TASK_OVER)
jobs = LongPoll(Job.objects, JOB_OVER)
