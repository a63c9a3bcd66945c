"""The latest overview of this process. Pages and WebSockets share it, so that ten reloads cost one read."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace

import structlog
from django.db import DatabaseError
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.views.snapshot import Snapshot
from dalston_queue.dashboard.overview import from_postgres, from_redis
from dalston_queue.dashboard.overview.from_postgres import with_progress
from dalston_queue.dashboard.overview.values import InPostgres, InRedis, Overview, Past
from dalston_queue.dashboard.parts.charts import History
from dalston_queue.health import outages
from dalston_queue.jobs.queries.lanes import ReadyByQueue, read_ready
from dalston_queue.jobs.queries.queues import Selection, first, select
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 0.25
"""How old an overview may be when it is sent: it adds to the tick."""
WINDOW_S, MIN_WINDOW_S = 15.0, 4.0
"""Rates are measured over the last 15 s, and unknown for the first 4."""


class Latest:
    def __init__(self, fresh_s: float = FRESH_S) -> None:
        self.fresh_s = fresh_s
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._overview: Overview | None = None
        self._past: deque[tuple[float, Snapshot]] = deque()
        self._lanes, self._queues, self._dead_letters = History("lane"), History("queue"), History("dead_letters")
        self._tasks, self._workers = History("tasks"), History("workers")

    def get(self) -> Overview:
        """One thread reads; threads that come meanwhile wait and take the same overview."""
        with self._lock:
            if self._overview is None or time.monotonic() - self._read_at > self.fresh_s:
                self._overview = self._read()
                self._read_at = time.monotonic()
                self._remember(self._overview)
            return self._overview

    def _read(self) -> Overview:
        in_redis = _names()
        postgres, shown = _postgres(in_redis)
        # Without what waits in Postgres, the rates of what comes in are not known.
        before, ready = (None, None) if postgres is None else (self._before(), postgres.ready)
        redis = None if in_redis is None else _redis(before, ready, shown)
        if redis is not None and postgres is not None:
            postgres = replace(postgres, tasks=with_progress(postgres.tasks, get_broker()))
        past = Past() if postgres is None else self._samples()
        return Overview(at=timezone.now(), redis=redis, postgres=postgres, past=past)

    def _samples(self) -> Past:
        try:
            return Past(
                lanes=self._lanes.get(),
                queues=self._queues.get(),
                dead_letters=self._dead_letters.get().get("all", []),
                tasks=self._tasks.get().get("all", []),
                workers=self._workers.get().get("all", []),
            )
        except DatabaseError as error:
            if not outages.report(error):
                log.warning("overview.samples_unavailable", error=str(error))
            return Past()

    def _before(self) -> Snapshot | None:
        """The oldest snapshot of the window; None after a start, and after a while without an open page."""
        now = time.monotonic()
        while self._past and now - self._past[0][0] > WINDOW_S:
            self._past.popleft()
        return self._past[0][1] if self._past and now - self._past[0][0] >= MIN_WINDOW_S else None

    def _remember(self, overview: Overview) -> None:
        if overview.redis is None:
            self._past.clear()
        elif overview.postgres is not None:
            self._past.append((self._read_at, overview.redis.snapshot))


def with_queue(queue: str) -> Overview:
    """The latest overview, with this queue: it may be none of the busiest."""
    overview = latest.get()
    redis = overview.redis
    if redis is None or not redis.shown.hidden or queue in (redis.shown.names or ()):
        return overview
    ready = None if overview.postgres is None else read_ready([queue])
    if queue not in get_broker().queues() and not ready:
        return overview
    its = _redis(None, ready, Selection([queue]))
    if its is None:
        return overview
    snapshot = replace(redis, lanes=redis.lanes + its.lanes, snapshot=_joined(redis.snapshot, its.snapshot))
    return replace(overview, redis=snapshot)


def _joined(one: Snapshot, other: Snapshot) -> Snapshot:
    return Snapshot(at_ms=one.at_ms, queues=[*one.queues, *other.queues])


def _names() -> list[str] | None:
    """The queues that Redis knows; None if it does not answer."""
    try:
        return get_broker().queues()
    except BrokerError as error:
        if not outages.report(error):
            log.warning("overview.redis_unavailable", error=str(error))
        return None


def _redis(before: Snapshot | None, ready: ReadyByQueue | None, shown: Selection) -> InRedis | None:
    try:
        return from_redis.read(get_broker(), before, ready, shown)
    except BrokerError as error:
        if not outages.report(error):
            log.warning("overview.redis_unavailable", error=str(error))
        return None


def _postgres(in_redis: list[str] | None) -> tuple[InPostgres | None, Selection]:
    """What Postgres knows, and which queues are shown."""
    try:
        shown = select(in_redis or ())
        return from_postgres.read(shown.names), shown
    except DatabaseError as error:
        if not outages.report(error):
            log.warning("overview.postgres_unavailable", error=str(error))
        return None, first(in_redis or ())


latest = Latest()
