"""The waiting tasks of a lane and tier: which groups they are of, and the oldest of each group.

Each statement reads an index of READY tasks and stops: the groups by skipping from one to the next, the tasks of a
group from its oldest. No row is read for a task that does not come next, however many wait or are held by a limit.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection

from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.jobs.order.share import Group, WaitingGroup
from dalston_queue.jobs.order.window import LaneTier, Windows


class Found(NamedTuple):
    """A waiting task that comes next."""

    task_id: UUID
    job_id: UUID
    group: Group


@dataclass(frozen=True, slots=True)
class InFlight:
    """By group what is QUEUED or RUNNING in a queue. Limits go by all of it. Shares go by what engines claim before or
    beside the window that is filled: an entry of a lower tier, or of a lane without an engine, takes no slot from it.
    """

    all: Counter[Group] = field(default_factory=Counter)
    queued: Counter[Group] = field(default_factory=Counter)
    before: Counter[Group] = field(default_factory=Counter)
    queued_before: Counter[Group] = field(default_factory=Counter)


MAX_KEYS = 200
"""Keys of one project that are read. With more, so many of the others are read as well, in turn."""

_LAST = "\U0010ffff"  # greater than any key

# A recursive query that reads one index entry per group. From a project with many keys it skips to the next one.
GROUPS = """
    WITH RECURSIVE waiting AS (
        (SELECT project_id, concurrency_key, first_enqueued_at, 1 AS nth FROM dalston_task
         WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
         ORDER BY project_id, concurrency_key, first_enqueued_at LIMIT 1)
        UNION ALL
        SELECT next.* FROM waiting CROSS JOIN LATERAL (
            SELECT project_id, concurrency_key, first_enqueued_at,
                   CASE WHEN project_id = waiting.project_id THEN waiting.nth + 1 ELSE 1 END
            FROM dalston_task
            WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
              AND (project_id, concurrency_key) > (
                  waiting.project_id,
                  CASE WHEN waiting.nth >= %(keys)s THEN %(last)s ELSE waiting.concurrency_key END
              )
            ORDER BY project_id, concurrency_key, first_enqueued_at LIMIT 1
        ) AS next
    )
    SELECT w.project_id, w.concurrency_key, w.first_enqueued_at, p.weight
    FROM waiting w JOIN dalston_project p ON p.id = w.project_id"""
OTHER_KEYS = """
    WITH RECURSIVE waiting AS (
        (SELECT project_id, concurrency_key, first_enqueued_at, 1 AS nth FROM dalston_task
         WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
           AND project_id = %(project)s AND concurrency_key > %(after)s
         ORDER BY project_id, concurrency_key, first_enqueued_at LIMIT 1)
        UNION ALL
        SELECT next.* FROM waiting CROSS JOIN LATERAL (
            SELECT project_id, concurrency_key, first_enqueued_at, waiting.nth + 1 FROM dalston_task
            WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
              AND project_id = %(project)s AND concurrency_key > waiting.concurrency_key AND waiting.nth < %(keys)s
            ORDER BY project_id, concurrency_key, first_enqueued_at LIMIT 1
        ) AS next
    )
    SELECT w.project_id, w.concurrency_key, w.first_enqueued_at, p.weight
    FROM waiting w JOIN dalston_project p ON p.id = w.project_id"""
OLDEST = """
    SELECT id, job_id, project_id, concurrency_key FROM dalston_task WHERE status = 'ready' AND lane = %s AND tier = %s
    ORDER BY first_enqueued_at, id LIMIT %s"""
# The group as a range, and in the order: with = the planner may take the index by age instead, while it has no
# statistics of thousands of new tasks, and read all older tasks of other groups.
OLDEST_OF_GROUPS = """
    SELECT g.project_id, g.concurrency_key, t.id, t.job_id
    FROM unnest(%(projects)s::uuid[], %(of_keys)s::text[], %(counts)s::int[]) AS g (project_id, concurrency_key, count)
    CROSS JOIN LATERAL (
        SELECT id, job_id, first_enqueued_at FROM dalston_task
        WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
          AND (project_id, concurrency_key) >= (g.project_id, g.concurrency_key)
          AND (project_id, concurrency_key) <= (g.project_id, g.concurrency_key)
        ORDER BY project_id, concurrency_key, first_enqueued_at, id LIMIT g.count
    ) AS t
    ORDER BY t.first_enqueued_at, t.id"""
# One JSON text: as rows, 500 groups take two milliseconds more.
_AS_JSON = """
    SELECT coalesce(json_agg(json_build_array(project_id, concurrency_key, first_enqueued_at, weight)), '[]')::text
    FROM ({groups}) AS waiting_group"""
_GROUPS_AS_JSON = _AS_JSON.format(groups=GROUPS)
_OTHER_KEYS_AS_JSON = _AS_JSON.format(groups=OTHER_KEYS)
# In the transaction. While the planner has no statistics of thousands of new tasks, or those of a quiet minute, it may
# read and sort all of them for each group, instead of one by the index: 0.4 s for 400 groups.
_SORT = "SELECT set_config('enable_sort', %s, true)"
_groups = msgspec.json.Decoder(list[WaitingGroup]).decode
# What runs has no lane and tier here: it counts for each window.
IN_FLIGHT = """
    SELECT project_id, concurrency_key, CASE WHEN status = 'queued' THEN lane ELSE '' END AS in_lane,
           CASE WHEN status = 'queued' THEN tier ELSE '' END AS in_tier, count(*) FROM dalston_task
    WHERE queue = %s AND status IN ('queued', 'running') GROUP BY project_id, concurrency_key, in_lane, in_tier"""


_last_keys: dict[tuple[LaneTier, UUID], str] = {}
"""Of projects with more than MAX_KEYS keys the last one that this process has read."""


def groups(lane_tier: LaneTier) -> list[WaitingGroup]:
    """The groups with waiting tasks."""
    found = _read_groups(_GROUPS_AS_JSON, lane_tier, last=_LAST)
    for project_id, count in Counter(each.project_id for each in found).items():
        if count >= MAX_KEYS:
            found += _other_keys(
                lane_tier, project_id, max(each.concurrency_key for each in found if each.project_id == project_id)
            )
    return found


def _other_keys(lane_tier: LaneTier, project_id: UUID, first: str) -> list[WaitingGroup]:
    """The next keys behind the first ones. Each call goes on after the last, so that every key has its turn."""
    after = max(first, _last_keys.pop((lane_tier, project_id), first))
    found = _read_groups(_OTHER_KEYS_AS_JSON, lane_tier, project=project_id, after=after)
    if len(found) == MAX_KEYS:
        _last_keys[lane_tier, project_id] = max(each.concurrency_key for each in found)
    return found


def _read_groups(statement: str, lane_tier: LaneTier, **more: Any) -> list[WaitingGroup]:
    with by_index() as cursor:
        cursor.execute(statement, {"lane": lane_tier[0], "tier": lane_tier[1], "keys": MAX_KEYS, **more})
        return _groups(cursor.fetchone()[0])


@contextmanager
def by_index() -> Iterator[Any]:
    """A cursor whose statements read each group in the order of its index."""
    with connection.cursor() as cursor:
        cursor.execute(_SORT, ["off"])
        yield cursor
        cursor.execute(_SORT, ["on"])


def in_flight(lane_tier: LaneTier, windows: Windows) -> InFlight:
    """What each group has in flight in the queue of this window."""
    found, mine = InFlight(), windows.rank(lane_tier)
    with connection.cursor() as cursor:
        cursor.execute(IN_FLIGHT, [queue_of_lane(lane_tier[0])])
        for project_id, key, lane, tier, count in cursor.fetchall():
            group = project_id, key
            found.all[group] += count
            found.queued[group] += count if lane else 0
            if not lane or windows.rank((lane, tier)) <= mine:
                found.before[group] += count
                found.queued_before[group] += count if lane else 0
    return found


def oldest(lane_tier: LaneTier, count: int) -> list[Found]:
    """The oldest tasks of a lane and tier, whatever their groups."""
    with connection.cursor() as cursor:
        cursor.execute(OLDEST, [*lane_tier, count])
        return [Found(task, job, (project_id, key)) for task, job, project_id, key in cursor.fetchall()]


def oldest_of(lane_tier: LaneTier, chosen: Sequence[Group]) -> list[Found]:
    """The oldest tasks of these groups: of each as many as it is named, in this order."""
    counts = Counter(chosen)
    arguments: dict[str, Any] = {
        "lane": lane_tier[0],
        "tier": lane_tier[1],
        "projects": [project_id for project_id, _ in counts],
        "of_keys": [key for _, key in counts],
        "counts": list(counts.values()),
    }
    with by_index() as cursor:
        cursor.execute(OLDEST_OF_GROUPS, arguments)
        of_group: defaultdict[Group, list[Found]] = defaultdict(list)
        for project_id, key, task, job in cursor.fetchall():
            of_group[project_id, key].append(Found(task, job, (project_id, key)))
    left = {group: iter(tasks) for group, tasks in of_group.items()}
    found = (next(left.get(group, iter(())), None) for group in chosen)
    return [task for task in found if task is not None]
