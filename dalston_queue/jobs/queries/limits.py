"""How much of each limit is used, and what waits behind it; and what each project has in flight.

A fixed number of statements for all limits together: one count of what is in flight, over its index, and one that stops
after COUNT_LIMIT waiting tasks per limit, lane and tier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db import connection

from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.jobs.order.depth import LaneDepth, depths
from dalston_queue.jobs.order.limits import Bucket, applies
from dalston_queue.jobs.order.share import Group
from dalston_queue.models import Limit
from dalston_queue.models.order import EACH_KEY

COUNT_LIMIT = 1_000
"""So many waiting tasks of a project or a key are counted in one tier of a lane."""

InFlight = Mapping[str, Mapping[Group, int]]
"""By queue, then by project and key."""

IN_FLIGHT = """
    SELECT queue, project_id, concurrency_key, count(*), count(*) FILTER (WHERE status = 'queued') FROM dalston_task
    WHERE status IN ('queued', 'running') GROUP BY queue, project_id, concurrency_key"""
# The keys between two: "" to "" of no key, x to x of one, "!" to the greatest of each.
WAITING = """
    SELECT w.id, sum(t.count)::int
    FROM unnest(%(ids)s::bigint[], %(projects)s::uuid[], %(first)s::text[], %(last)s::text[], %(lanes)s::text[],
                %(tiers)s::text[]) AS w (id, project_id, first, last, lane, tier)
    CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT 1 FROM dalston_task
            WHERE status = 'ready' AND lane = w.lane AND tier = w.tier AND project_id = w.project_id
              AND concurrency_key BETWEEN w.first AND w.last
            LIMIT %(count)s
        ) AS found
    ) AS t GROUP BY w.id"""
_LAST = "\U0010ffff"  # greater than any key


@dataclass(frozen=True, slots=True)
class Usage:
    """What is used of a limit. Of a limit for each key: of the key that has the most in flight."""

    limit: Limit
    in_flight: int
    waiting: int  # READY tasks that it applies to
    fullest_key: str = ""
    keys_at_limit: int = 0
    next_start_s: float | None = None  # None: no limit of starts

    @property
    def is_full(self) -> bool:
        maximum = self.limit.max_in_flight
        return (maximum is not None and self.in_flight >= maximum) or bool(self.next_start_s)


def read_usage(limits: Sequence[Limit], now: datetime) -> list[Usage]:
    flying, waiting = in_flight_by_queue(), _waiting(limits, depths())
    return [_usage(limit, flying, waiting.get(limit.pk, 0), now) for limit in limits]


def in_flight_by_queue() -> InFlight:
    found, _ = in_flight_and_windows()
    return found


def in_flight_and_windows() -> tuple[InFlight, InFlight]:
    """All that is in flight, and of it what waits in windows."""
    found: defaultdict[str, dict[Group, int]] = defaultdict(dict)
    in_windows: defaultdict[str, dict[Group, int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(IN_FLIGHT)
        for queue, project_id, key, count, queued in cursor.fetchall():
            found[queue][project_id, key] = count
            in_windows[queue][project_id, key] = queued
    return found, in_windows


def by_project(groups: Mapping[Group, int]) -> Counter[UUID]:
    """What each project has, with all of its keys."""
    found: Counter[UUID] = Counter()
    for (project_id, _), count in groups.items():
        found[project_id] += count
    return found


def _usage(limit: Limit, flying: InFlight, waiting: int, now: datetime) -> Usage:
    counts: Counter[Group] = Counter()
    for queue in [limit.queue] if limit.queue else flying:
        counts.update({group: count for group, count in flying.get(queue, {}).items() if applies(limit, group)})
    bucket = Bucket.of(limit, now)
    next_start_s = None if bucket is None else bucket.next_start_s
    if not limit.is_of_each_key:
        return Usage(limit, counts.total(), waiting, next_start_s=next_start_s)
    maximum = limit.max_in_flight or 0
    (_, key), most = max(counts.items(), key=itemgetter(1), default=((None, ""), 0))
    return Usage(limit, most, waiting, key, sum(count >= maximum for count in counts.values()), next_start_s)


def _waiting(limits: Iterable[Limit], found: Iterable[LaneDepth]) -> dict[int, int]:
    """By limit. A queue's number is known; the tasks of a project or key are counted."""
    lanes = [lane for lane in found if lane.ready > 0]
    known: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    for limit in limits:
        mine = [lane for lane in lanes if limit.queue in ("", queue_of_lane(lane.lane))]
        if limit.project_id is None:
            known[limit.pk] = sum(lane.ready for lane in mine)
            continue
        first, last = _keys(limit.concurrency_key)
        rows += [(limit.pk, limit.project_id, first, last, lane.lane, lane.tier) for lane in mine]
    if not rows:
        return known
    names = ("ids", "projects", "first", "last", "lanes", "tiers")
    arguments = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    with connection.cursor() as cursor:
        cursor.execute(WAITING, {**arguments, "count": COUNT_LIMIT})
        return known | dict(cursor.fetchall())


def _keys(key: str) -> tuple[str, str]:
    """The first and the last key that a limit of this key applies to."""
    if key == EACH_KEY:
        return "!", _LAST
    return (key, key) if key else ("", _LAST)
