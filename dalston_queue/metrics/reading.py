"""One reading for all gauges of a scrape: the dashboard's snapshot, and a few queries of Postgres, each bounded.

A reading is shared by all scrapes within FRESH_S, so that several scrapers cost no more than one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.views.snapshot import Snapshot
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.values import Overview
from dalston_queue.database import release_connection
from dalston_queue.health import outages
from dalston_queue.jobs.queries.waits import OLDEST, oldest_ages
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)

FRESH_S = 5.0
COUNT_LIMIT = 10_000
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}

_COUNTS = """
    SELECT
        (SELECT count(*) FROM (SELECT FROM dalston_task WHERE status = 'pending' LIMIT %(limit)s) AS p),
        (SELECT count(*) FROM (SELECT FROM dalston_task WHERE status = 'scheduled' LIMIT %(limit)s) AS s),
        (SELECT count(*) FROM (SELECT FROM dalston_webhook_delivery WHERE state = 'pending' LIMIT %(limit)s) AS w)"""

_DEPTH = """
    SELECT split_part(lane, '@', 1), tier, sum(ready), sum(queued), sum(running) FROM dalston_depth GROUP BY 1, 2"""

_DEAD_LETTERS = """
    SELECT cause, count(*), count(*) FILTER (WHERE retriable) FROM (
        SELECT cause, retriable FROM dalston_dead_letter
        WHERE replayed_at IS NULL AND discarded_at IS NULL AND created_at > %s
        ORDER BY created_at DESC, id DESC LIMIT %s
    ) AS recent GROUP BY cause"""


@dataclass(frozen=True, slots=True)
class FromPostgres:
    states: Mapping[str, int]
    webhooks: int
    dead_letters: Mapping[str, int]  # open ones of the last day, by cause
    retriable: int  # of them: another attempt may end differently
    ages: Mapping[tuple[str, str, str], float]  # by queue, tier and percentile


@dataclass(frozen=True, slots=True)
class Reading:
    overview: Overview
    postgres: FromPostgres | None
    stale: Mapping[str, int] = field(default_factory=dict)  # by queue


def read() -> Reading:
    overview = latest.get()
    snapshot = overview.redis.snapshot if overview.redis else None
    stale: dict[str, int] = {}
    try:
        if snapshot is not None:
            stale = _stale(snapshot)
    except BrokerError as error:
        if not outages.report(error):
            log.warning("metrics.redis_unavailable", error=str(error))
    try:
        return Reading(overview, from_postgres(timezone.now()) if overview.postgres else None, stale)
    except DatabaseError as error:
        if not outages.report(error):
            log.warning("metrics.postgres_unavailable", error=str(error))
        return Reading(overview, None, stale)
    finally:
        release_connection()  # a process without a pool serves each scrape in a thread of its own


def _stale(snapshot: Snapshot) -> dict[str, int]:
    """Of queues with running tasks: one lookup in an index each."""
    broker, threshold = get_broker(), settings.DALSTON_STALE_THRESHOLD_MS
    return {
        stats.queue: broker.pending(stats.queue, min_idle_ms=threshold, limit=1).total if stats.running else 0
        for stats in snapshot.queues
    }


def from_postgres(now: datetime) -> FromPostgres:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"limit": COUNT_LIMIT})
        pending, scheduled, webhooks = cursor.fetchone()
        cursor.execute(_DEPTH)
        depth = {(queue, tier): (int(r), int(q), int(run)) for queue, tier, r, q, run in cursor.fetchall()}
        cursor.execute(_DEAD_LETTERS, [now - timedelta(days=1), COUNT_LIMIT])
        dead = cursor.fetchall()
    oldest = oldest_ages(now)
    ready, queued, running = (sum(column) for column in zip(*depth.values(), strict=True)) if depth else (0, 0, 0)
    states = {"pending": pending, "scheduled": scheduled, "ready": ready, "queued": queued, "running": running}
    waiting = {key: counts[0] + counts[1] for key, counts in depth.items()}
    return FromPostgres(
        states={**states, "dead_letter": sum(number for _, number, _ in dead)},
        webhooks=webhooks,
        dead_letters={cause: number for cause, number, _ in dead},
        retriable=sum(its_retriable for _, _, its_retriable in dead),
        ages={
            (*key, name): age for key, ages in oldest.items() for name, age in percentiles(ages, waiting.get(key, 0))
        },
    )


def percentiles(ages: Sequence[float], waiting: int) -> Iterator[tuple[str, float]]:
    """Of the ages of the oldest, the oldest first, among so many waiting. A percentile that is not among them is not
    known, and absent."""
    count = len(ages) if len(ages) < OLDEST else max(waiting, len(ages))
    for name, percent in PERCENTILES.items():
        rank = max(1, -(-(100 - percent) * count // 100))  # rounded up, in whole numbers
        if rank <= len(ages):
            yield name, max(0.0, ages[rank - 1])
    if ages:
        yield "oldest", max(0.0, ages[0])


class Readings:
    """The latest reading of this process."""

    def __init__(self, make: Callable[[], Reading], fresh_s: float = FRESH_S) -> None:
        self.fresh_s = fresh_s
        self._make = make
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._reading: Reading | None = None

    def get(self) -> Reading:
        """One thread reads; threads that come meanwhile wait and take the same reading."""
        with self._lock:
            if self._reading is None or time.monotonic() - self._read_at > self.fresh_s:
                self._reading = self._make()
                self._read_at = time.monotonic()
            return self._reading


readings = Readings(read)
