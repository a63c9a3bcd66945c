"""How long tasks have waited, and what was recovered in the last hour. Bounded: nothing reads a whole queue."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

MOST = 10_000
"""Waiting tasks that are read. If more wait, a percentile is not known."""
OLDEST = 2_000
"""So many of the oldest of each queue and priority are read for percentiles: the p95 of 40 000 tasks is among them."""
LANES = 300

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


# The oldest of each lane and tier in Postgres, and what waits in windows, which are short.
OLDEST_AGES = """
    SELECT queue, tier, array_agg(extract(epoch FROM %(now)s - at)::float8 ORDER BY at) FROM (
        SELECT queue, tier, at, row_number() OVER (PARTITION BY queue, tier ORDER BY at) AS rank FROM (
            SELECT split_part(d.lane, '@', 1) AS queue, d.tier, t.first_enqueued_at AS at
            FROM (
                SELECT lane, tier FROM dalston_depth GROUP BY lane, tier HAVING sum(ready) > 0
                ORDER BY sum(ready) DESC LIMIT %(lanes)s
            ) AS d CROSS JOIN LATERAL (
                SELECT first_enqueued_at FROM dalston_task
                WHERE status = 'ready' AND lane = d.lane AND tier = d.tier
                ORDER BY first_enqueued_at, id LIMIT %(oldest)s
            ) AS t
            UNION ALL
            SELECT queue, tier, first_enqueued_at FROM (
                SELECT queue, tier, first_enqueued_at FROM dalston_task
                WHERE status IN ('queued', 'running') AND status = 'queued' LIMIT %(limit)s
            ) AS queued
        ) AS waiting
    ) AS ranked WHERE rank <= %(oldest)s GROUP BY queue, tier"""


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


def oldest_ages(now: datetime) -> dict[tuple[str, str], list[float]]:
    """The ages in seconds of the OLDEST waiting tasks, by queue and tier, the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(OLDEST_AGES, {"now": now, "lanes": LANES, "oldest": OLDEST, "limit": MOST})
        return {(queue, tier): ages for queue, tier, ages in cursor.fetchall()}


AGE_LIMITS = (10, 60, 600, 3600)
"""In seconds, between the steps of the distribution of ages."""


def age_distribution(now: datetime) -> dict[str, int]:
    """Waiting tasks by age: `age_10` are at most 10 s old, `age_60` a minute, `age_more` more than an hour;
    `age_unread` are younger than the OLDEST of their queue and tier."""
    found = {f"age_{limit}": 0 for limit in (*AGE_LIMITS, "more")}
    read = 0
    for ages in oldest_ages(now).values():
        read += len(ages)
        for age in ages:
            found[f"age_{next((limit for limit in AGE_LIMITS if age <= limit), 'more')}"] += 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(ready + queued), 0) FROM dalston_depth")
        waiting = int(cursor.fetchone()[0])
    return {**found, "age_unread": max(0, waiting - read)}


def recovered_since(since: datetime) -> tuple[int, int]:
    """Tasks that were reclaimed after the death of an engine or node, and attempts that timed out and were retried."""
    with connection.cursor() as cursor:
        cursor.execute(_RECOVERED, {"since": since, "most": MOST})
        recovered, timeouts = cursor.fetchone()
    return int(recovered), int(timeouts)


HOUR = timedelta(hours=1)
