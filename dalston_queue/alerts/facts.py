"""Facts that alerts are measured from: the reading of the metrics, and minute samples of what grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import connection

from dalston_queue.jobs.queries.pace import counters_of
from dalston_queue.metrics.reading import Reading, readings
from dalston_queue.models import Sample

WINDOW = timedelta(minutes=5)
MIN_ATTEMPTS = 10
"""Of fewer attempts in the window no rate is a rate."""
COUNT_LIMIT = 10_000

_RECENT = """
    SELECT
        (SELECT count(*) FROM (
            SELECT FROM dalston_dead_letter WHERE created_at > %(since)s LIMIT %(limit)s) AS made),
        (SELECT count(*) FROM (
            SELECT FROM dalston_task_event WHERE transition = 'retry' AND at > %(since)s LIMIT %(limit)s) AS retried)"""


@dataclass(frozen=True, slots=True)
class Grown:
    """How much the counters of a queue grew in the window, and over which time."""

    numbers: Mapping[str, float]
    seconds: float

    def per_minute(self, name: str) -> float:
        return 60 * self.numbers.get(name, 0.0) / self.seconds


@dataclass(frozen=True, slots=True)
class Facts:
    at: datetime
    reading: Reading
    queues: Mapping[str, Grown] = field(default_factory=dict)  # without those that have no sample in the window
    probe_failures: Grown | None = None
    dead_letters: int | None = None  # made in the window
    retries: int | None = None  # in the window

    def total(self, name: str) -> float | None:
        """Growth over all queues in the window; None without samples."""
        return sum(grown.numbers.get(name, 0.0) for grown in self.queues.values()) if self.queues else None

    def per_minute(self, name: str) -> float | None:
        return sum(grown.per_minute(name) for grown in self.queues.values()) if self.queues else None


def read_facts(now: datetime) -> Facts:
    """Raises django.db.Error."""
    reading = readings.get()
    earliest = _earliest(now)
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, {"since": now - WINDOW, "limit": COUNT_LIMIT})
        dead_letters, retries = cursor.fetchone()
    return Facts(
        at=now,
        reading=reading,
        queues=_queues(reading, earliest),
        probe_failures=_probe_failures(reading, earliest.get(("workers", "all"))),
        dead_letters=dead_letters,
        retries=retries,
    )


def _earliest(now: datetime) -> dict[tuple[str, str], Mapping[str, float]]:
    """The oldest sample of the window, by kind and name."""
    rows = Sample.objects.filter(kind__in=["counters", "workers"], at__gt=now - WINDOW).order_by("-at")
    return {(kind, name): numbers for kind, name, numbers in rows.values_list("kind", "name", "numbers")}


def _queues(reading: Reading, earliest: Mapping[tuple[str, str], Mapping[str, float]]) -> dict[str, Grown]:
    redis = reading.overview.redis
    if redis is None:
        return {}
    found = {}
    for stats in redis.snapshot.queues:
        before = earliest.get(("counters", stats.queue))
        if before is not None and (grown := _grown(before, counters_of(stats, redis.snapshot.at_ms))):
            found[stats.queue] = grown
    return found


def _probe_failures(reading: Reading, before: Mapping[str, float] | None) -> Grown | None:
    redis = reading.overview.redis
    if redis is None or before is None:
        return None
    failures = sum(engine.probe_failures for node in redis.nodes for engine in node.engines)
    return _grown(before, {"probe_failures": failures, "at_ms": redis.snapshot.at_ms})


def _grown(before: Mapping[str, float], now: Mapping[str, float]) -> Grown | None:
    """None if no time has passed. A counter that decreased began anew."""
    seconds = (now["at_ms"] - before["at_ms"]) / 1000
    if seconds < 1:
        return None
    return Grown({name: max(0.0, value - before.get(name, value)) for name, value in now.items()}, seconds)
