"""The turn of READY tasks: the limits and shares that decide when they are queued. Read for several tasks at once.

`orders` reads; `held_by`, `share_of` and `position` are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import floor
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q

from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import TIERS, Tier
from dalston_queue.broker.views.snapshot import LaneStats
from dalston_queue.jobs.order.limits import Bucket, applies, burst
from dalston_queue.jobs.order.share import Group
from dalston_queue.jobs.order.waiting import groups
from dalston_queue.jobs.order.window import Windows
from dalston_queue.jobs.queries.limits import InFlight, by_project, in_flight_and_windows
from dalston_queue.jobs.queries.pace import in_words
from dalston_queue.models import Limit, Project, Task

MAX_OLDER = 1_000
"""So many older tasks of its own group are counted, in their index."""

# A range of task_ready_by_group: with = the planner may read all older tasks of other groups (jobs/order/waiting.py).
OLDER = """
    SELECT count(*) FROM (
        SELECT 1 FROM dalston_task
        WHERE status = 'ready' AND lane = %(lane)s AND tier = %(tier)s
          AND (project_id, concurrency_key) >= (%(project)s, %(key)s)
          AND (project_id, concurrency_key, first_enqueued_at, id) < (%(project)s, %(key)s, %(at)s, %(id)s)
        LIMIT %(count)s
    ) AS found"""


@dataclass(frozen=True, slots=True)
class Order:
    """What decides when a READY task is queued."""

    group: Group
    limits: tuple[Limit, ...] = ()  # that apply to it
    in_flight: InFlight = field(default_factory=dict)
    in_windows: InFlight = field(default_factory=dict)  # of it, what no engine has started
    projects: Mapping[UUID, str] = field(default_factory=dict)  # names of those with tasks in flight in its queue
    older: int | None = None  # tasks of its group; None: not counted
    groups: int = 1  # that wait in its lane and tier


def orders(tasks: Sequence[Task]) -> dict[UUID, Order]:
    """By id, without the older tasks of each: two statements, however many tasks; and the names of the projects."""
    ready = [task for task in tasks if task.status == "ready"]
    if not ready:
        return {}
    queues = {task.queue for task in ready}
    limits = list(Limit.objects.filter(Q(queue__in=queues) | Q(queue="")).select_related("project").order_by("id"))
    flying, in_windows = in_flight_and_windows()
    ids = {project for queue in queues for project in by_project(flying.get(queue, {}))}
    names = dict(Project.objects.filter(id__in=ids).values_list("id", "name"))
    found = {}
    for task in ready:
        group = task.project_id, task.concurrency_key
        mine = tuple(limit for limit in limits if limit.queue in ("", task.queue) and applies(limit, group))
        found[task.id] = Order(group, mine, flying, in_windows, names)
    return found


def order_of(task: Task) -> Order:
    """With the older tasks of its group, and the groups that wait beside it."""
    order = orders([task])[task.id]
    arguments = {
        "lane": task.lane, "tier": task.tier, "project": task.project_id, "key": task.concurrency_key,
        "at": task.first_enqueued_at, "id": task.id, "count": MAX_OLDER,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(OLDER, arguments)
        [older] = cursor.fetchone()
    waiting = groups((task.lane, task.tier))
    return replace(order, older=older, groups=max(1, len(waiting)))


def held_by(order: Order, now: datetime) -> str | None:
    """The limit that holds the task's group back, in a sentence; None if none does."""
    return next((words for limit in order.limits if (words := _held(limit, order, now))), None)


def _held(limit: Limit, order: Order, now: datetime) -> str | None:
    whose, where = _whose(limit, order), f" in the queue {limit.queue}" if limit.queue and limit.project_id else ""
    used, maximum = _used(limit, order, order.in_flight), limit.max_in_flight
    if maximum is not None and used >= maximum:
        if maximum == 0:
            return f"A limit of 0 stops {whose}{where}."
        return f"A limit holds it back: {whose} has {used} of {maximum} in flight{where}."
    bucket = Bucket.of(limit, now)
    if bucket is None:
        return None
    if bucket.left >= 1:
        waiting = _used(limit, order, order.in_windows)
        if waiting < floor(burst(bucket.starts_per_minute)):
            return None
        rate = f"may start {bucket.starts_per_minute} a minute{where}; {waiting} that are queued start before it"
        return f"A limit holds it back: {whose} {rate}."
    soon = in_words(max(1, bucket.next_start_s))
    rate = f"may start {bucket.starts_per_minute} a minute{where}; the next start is in about {soon}"
    return f"A limit holds it back: {whose} {rate}."


def _used(limit: Limit, order: Order, by_queue: InFlight) -> int:
    """For each key: by the task's own key."""
    counts = [by_queue.get(queue, {}) for queue in ([limit.queue] if limit.queue else by_queue)]
    if limit.is_of_each_key:
        return sum(groups.get(order.group, 0) for groups in counts)
    return sum(count for groups in counts for group, count in groups.items() if applies(limit, group))


def _whose(limit: Limit, order: Order) -> str:
    if limit.concurrency_key:
        return f"key {order.group[1]} of project {limit.project.name if limit.project else ''}"
    return f"project {limit.project.name}" if limit.project else f"the queue {limit.queue}"


def share_of(order: Order, queue: str, *, names_others: bool) -> str | None:
    """Which other project has the most in flight in the queue; None if none has any."""
    flying: Counter[UUID] = by_project(order.in_flight.get(queue, {}))
    mine = flying.pop(order.group[0], 0)
    if not flying:
        return None
    total = mine + flying.total()
    [(project, most)] = flying.most_common(1)
    if names_others and project in order.projects:
        return f"project {order.projects[project]} has {most} of {total} in flight, its own {mine}"
    return f"other projects have {flying.total()} of {total} in flight, its own {mine}"


def has_room(task: Task, lanes: Sequence[LaneStats], engines: Sequence[EngineInfo]) -> bool:
    """Whether the window of its lane and tier is short enough to be refilled."""
    size = Windows(settings.DALSTON_WINDOW, tuple(engines)).size((task.lane, task.tier))
    return 2 * sum(max(0, lane.lag) for lane in lanes if _is_of(lane, task)) < size


def position(task: Task, order: Order, lanes: Sequence[LaneStats]) -> int:
    """An estimate of its queue position. `lanes`: those that compete for the engines that can run it."""
    rank = TIERS.index(Tier(task.tier))
    in_windows = sum(max(0, lane.lag) for lane in lanes if TIERS.index(lane.tier) <= rank)
    higher = sum(lane.ready for lane in lanes if TIERS.index(lane.tier) < rank)
    beside = max(0, sum(lane.ready for lane in lanes if _is_of(lane, task)) - 1)
    # The groups take turns: for each older one of its own, one of every other group.
    before = beside if order.older is None else min(beside, order.older * order.groups)
    return in_windows + higher + before + 1


def _is_of(lane: LaneStats, task: Task) -> bool:
    return lane.tier == task.tier and lane.capabilities == task.lane.partition("@")[2]
