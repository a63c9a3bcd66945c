"""How long tasks have waited, and what was recovered in the last hour. Bounded: nothing reads a whole queue."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

MOST = 10_000
"""Waiting tasks that are read. If more wait, a percentile is not known."""

# Each branch has a partial index. The limits come before anything is filtered or sorted.
_AGES = """
    SELECT effective_priority, count(*), percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY age),
        count(*) FILTER (WHERE age > %(over)s)
    FROM (
        SELECT effective_priority, extract(epoch FROM %(now)s - first_enqueued_at) AS age FROM (
            (SELECT effective_priority, first_enqueued_at FROM dalston_task WHERE status = 'ready' LIMIT %(most)s)
            UNION ALL
            (SELECT effective_priority, first_enqueued_at FROM dalston_task WHERE status = 'queued' LIMIT %(most)s)
        ) AS waiting
    ) AS aged
    GROUP BY effective_priority"""

# Each branch has a partial index.
_RECOVERED = """
    SELECT
        (SELECT count(*) FROM (SELECT FROM dalston_task_event WHERE transition = 'recover' AND at > %(since)s
                               AND cause IN ('engine_lost', 'node_lost') LIMIT %(most)s) AS r),
        (SELECT count(*) FROM (SELECT FROM dalston_task_event WHERE transition = 'retry' AND at > %(since)s
                               AND cause = 'timeout' LIMIT %(most)s) AS t)"""


@dataclass(frozen=True, slots=True)
class Ages:
    p50_s: float | None  # None: nothing waits, or too many tasks do
    p95_s: float | None
    over: int  # tasks that have waited for longer than asked


UNKNOWN = Ages(None, None, 0)


def ages_by_priority(now: datetime, over_s: float) -> dict[str, Ages]:
    """By effective priority; a priority of which nothing waits is left out."""
    with connection.cursor() as cursor:
        cursor.execute(_AGES, {"now": now, "most": MOST + 1, "over": over_s})
        rows = cursor.fetchall()
    if sum(count for _, count, _, _ in rows) > MOST:
        return {priority: Ages(None, None, over) for priority, _, _, over in rows}
    return {priority: Ages(max(0.0, float(p50)), max(0.0, float(p95)), over) for priority, _, (p50, p95), over in rows}


def recovered_since(since: datetime) -> tuple[int, int]:
    """Tasks that were reclaimed after the death of an engine or node, and attempts that timed out and were retried."""
    with connection.cursor() as cursor:
        cursor.execute(_RECOVERED, {"since": since, "most": MOST})
        recovered, timeouts = cursor.fetchone()
    return int(recovered), int(timeouts)


HOUR = timedelta(hours=1)
