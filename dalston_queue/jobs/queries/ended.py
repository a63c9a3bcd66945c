"""Tasks that ended within a span of time, by queue: how many, how many of them failed, and how long they had waited."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

MAX_READ = 100_000
"""Tasks that are read; at 1 600 a second in one minute there are more, and the counts are lower than the truth."""

_ENDED = """
    SELECT queue, count(*) FILTER (WHERE status = 'completed'),
        count(*) FILTER (WHERE status IN ('failed', 'dead_letter')),
        percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - first_enqueued_at)),
        percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - first_enqueued_at))
    FROM (
        SELECT queue, status, started_at, first_enqueued_at FROM dalston_task
        WHERE finished_at >= %s AND finished_at < %s ORDER BY finished_at LIMIT %s
    ) AS ended
    GROUP BY queue"""


@dataclass(frozen=True, slots=True)
class Ended:
    completed: int
    failed: int  # for good: retries that are left are no failure
    median_wait_s: float | None  # from READY for the first time to its last start; None: none of them started
    p95_wait_s: float | None


def ended_between(start: datetime, end: datetime) -> dict[str, Ended]:
    """By queue; a queue in which nothing ended is left out."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [start, end, MAX_READ])
        return {queue: Ended(*numbers) for queue, *numbers in cursor.fetchall()}
