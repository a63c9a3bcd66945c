"""Tasks that ended within a span of time: how many, how many failed, how long they waited and ran; and retries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from dalston_queue.broker.protocol.types import Cause

MAX_READ = 100_000
"""Tasks that are read; at 1 600 a second in one minute there are more, and the counts are lower than the truth."""

_ENDED = """
    SELECT queue, count(*) FILTER (WHERE status = 'completed'),
        count(*) FILTER (WHERE status IN ('failed', 'dead_letter')),
        percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY waited),
        percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ran) FILTER (WHERE status = 'completed')
    FROM (
        SELECT queue, status, extract(epoch FROM started_at - first_enqueued_at) AS waited,
            extract(epoch FROM finished_at - started_at) AS ran
        FROM dalston_task
        WHERE finished_at >= %s AND finished_at < %s ORDER BY finished_at LIMIT %s
    ) AS ended
    GROUP BY GROUPING SETS ((queue), ())"""

_RETRIED = """
    SELECT cause, count(*) FROM (
        SELECT cause FROM dalston_task_event
        WHERE transition = 'retry' AND at >= %s AND at < %s ORDER BY at LIMIT %s
    ) AS retried GROUP BY cause"""

Percentiles = tuple[float, float, float]
"""p50, p95 and p99, in seconds."""


@dataclass(frozen=True, slots=True)
class Ended:
    completed: int
    failed: int  # for good: retries that are left are no failure
    waits: Percentiles | None  # from READY for the first time to the last start; None: none of them started
    ran: Percentiles | None  # from the last start to the end; None: none completed


NONE = Ended(0, 0, None, None)


@dataclass(frozen=True, slots=True)
class EndedTasks:
    by_queue: Mapping[str, Ended]  # without queues in which nothing ended
    all: Ended


def ended_between(start: datetime, end: datetime) -> EndedTasks:
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [start, end, MAX_READ])
        rows = cursor.fetchall()
    found = {queue: Ended(done, failed, _known(waits), _known(ran)) for queue, done, failed, waits, ran in rows}
    total = found.pop(None, NONE)
    return EndedTasks(found, total)


def _known(percentiles: list[float | None] | None) -> Percentiles | None:
    if percentiles is None or percentiles[0] is None:
        return None
    p50, p95, p99 = (max(0.0, float(each or 0.0)) for each in percentiles)
    return p50, p95, p99


def retries_between(start: datetime, end: datetime) -> dict[str, int]:
    """Attempts that failed and are followed by another one, by cause; causes that we don't know are errors."""
    with connection.cursor() as cursor:
        cursor.execute(_RETRIED, [start, end, MAX_READ])
        rows = cursor.fetchall()
    found: dict[str, int] = {}
    for cause, count in rows:
        name = cause if cause in frozenset(Cause) else Cause.ERROR.value
        found[name] = found.get(name, 0) + count
    return found
