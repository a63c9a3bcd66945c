"""The duties of lanes: one forgets lanes and queues which nothing uses, so that invented names don't stay for ever; one
counts how many tasks they have, if the numbers are wrong.

A lane is forgotten in Redis first, by a script that refuses if anything is in it, and then in Postgres. A task that
comes in between makes it again.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from dalston_queue.jobs.order import depth
from dalston_queue.orchestrator.duties.report import Report
from dalston_queue.redis import get_broker

BATCH = 1000

_FOUND_IN_REDIS = """
    INSERT INTO dalston_lane (name, queue, project_id, used_at)
    SELECT name, split_part(name, '@', 1), NULL, %s FROM unnest(%s::text[]) AS name ON CONFLICT DO NOTHING"""
# The plain lane stands for its queue, and goes last. Depth: tasks that are not over.
_UNUSED = """
    SELECT l.name FROM dalston_lane l
    WHERE l.used_at < %(before)s AND NOT (l.queue = ANY(%(served)s) AND l.name = l.queue)
      AND NOT EXISTS (
          SELECT FROM dalston_depth d WHERE d.lane = l.name
          GROUP BY d.tier
          HAVING sum(d.pending) <> 0 OR sum(d.ready) <> 0 OR sum(d.queued) <> 0 OR sum(d.running) <> 0
      ) AND (l.name <> l.queue OR NOT (
          EXISTS (SELECT FROM dalston_lane other WHERE other.queue = l.queue AND other.name <> l.name)
          OR EXISTS (SELECT FROM dalston_stage_pause p WHERE p.queue = l.queue)
          OR EXISTS (SELECT FROM dalston_limit m WHERE m.queue = l.queue)
      ))
    ORDER BY l.used_at LIMIT %(count)s"""
_FORGET = "DELETE FROM dalston_lane WHERE name = ANY(%s) AND used_at < %s"


def forget_unused(now: datetime) -> Report:
    report = Report()
    broker = get_broker()
    with connection.cursor() as cursor:
        cursor.execute(_FOUND_IN_REDIS, [now, sorted(broker.all_lanes())])
        report.note("lanes found in Redis", cursor.rowcount, repaired=False)
    before = now - timedelta(seconds=settings.DALSTON_FORGET_QUEUES_S)
    served = {queue for engine in broker.registry.engines() for queue in engine.queues}
    for _ in range(2):  # capability sets, then the queues that have none left
        gone = [lane for lane in _unused(before, served) if broker.forget_lane(lane)]
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [gone, before])
        report.note("forgotten", len(gone))
    return report


def count_depth(_now: datetime) -> Report:
    """After a rolling upgrade from a release that counted less."""
    report = Report()
    report.note("wrong depths", depth.repair())
    return report


def _unused(before: datetime, served: Collection[str]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_UNUSED, {"before": before, "served": sorted(served), "count": BATCH})
        return [row[0] for row in cursor.fetchall()]
