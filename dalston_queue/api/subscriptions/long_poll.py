"""Long poll: `?wait=30` answers as soon as the task or the job is over, or when the time is up.

All waiting requests of a web process share one thread per model, which asks Postgres once per interval for all rows
awaited. A waiting request holds a thread of the server, but no database connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Annotated, Any
from uuid import UUID

import structlog
from django.db import DatabaseError, connections
from django.db.models import Manager
from ninja import Query

from dalston_queue.api.subscriptions.waiting import WAIT_SLOTS
from dalston_queue.database import release_connection
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER
from dalston_queue.models import Job, Task

log = structlog.get_logger(__name__)

MAX_WAIT_S = 30.0
INTERVAL_S = 0.1
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for it to be over.")]
LINGER_S = 5.0
"""How long the thread waits for the next request before it ends."""


class LongPoll:
    """Requests that wait until rows of one model are over."""

    def __init__(self, manager: Manager[Any], over: Collection[str]) -> None:
        self._rows: Any = manager
        self._over = sorted(over)
        self._lock = threading.Lock()
        self._awaited: dict[UUID, list[threading.Event]] = {}
        self._thread: threading.Thread | None = None

    def wait(self, row_id: UUID, seconds: float) -> None:
        """Returns when the row is over, at the latest after `seconds`. The caller reads the row afterwards."""
        if seconds <= 0:
            return
        over = threading.Event()
        with WAIT_SLOTS.take() as free:
            if not free:
                return
            self._add(row_id, over)
            try:
                release_connection()
                over.wait(min(seconds, MAX_WAIT_S))
            finally:
                self._remove(row_id, over)

    def _add(self, row_id: UUID, over: threading.Event) -> None:
        with self._lock:
            self._awaited.setdefault(row_id, []).append(over)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="long-poll", daemon=True)
                self._thread.start()

    def _remove(self, row_id: UUID, over: threading.Event) -> None:
        with self._lock:
            waiting = self._awaited[row_id]
            waiting.remove(over)
            if not waiting:
                del self._awaited[row_id]

    def _watch(self) -> None:
        busy_until = time.monotonic() + LINGER_S
        while True:
            with self._lock:
                awaited = list(self._awaited)
                if awaited:
                    busy_until = time.monotonic() + LINGER_S
                elif time.monotonic() > busy_until:
                    self._thread = None  # inside the lock: the next request starts a new one
                    return
            for row_id in self._find_over(awaited) if awaited else ():
                with self._lock:
                    for over in self._awaited.get(row_id, ()):
                        over.set()
            time.sleep(INTERVAL_S)

    def _find_over(self, awaited: list[UUID]) -> list[UUID]:
        try:
            return list(self._rows.filter(pk__in=awaited, status__in=self._over).values_list("pk", flat=True))
        except DatabaseError as error:
            log.warning("long_poll.database_unavailable", error=str(error))
            return []
        finally:
            connections.close_all()


tasks = LongPoll(Task.objects, TASK_OVER)
jobs = LongPoll(Job.objects, JOB_OVER)
