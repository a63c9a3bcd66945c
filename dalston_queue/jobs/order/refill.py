"""Refill: appends the next READY tasks to the windows that have room.

Any orchestrator may refill: the one that applied starts and settlements, the one that made tasks READY, and each of
them once a second. One transaction per window: its advisory lock keeps others out of the window meanwhile, the rows of
the limits that apply out of what these allow, and the locks of the jobs keep a task from being queued twice.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction

from dalston_queue import crash_points
from dalston_queue.broker import Broker
from dalston_queue.broker.errors import Denied
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.jobs.lifecycle.dispatch import ReadyTask, append_ready
from dalston_queue.jobs.lifecycle.status import Moved
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.depth import LaneDepth
from dalston_queue.jobs.order.large import FULL
from dalston_queue.jobs.order.limits import locked_limits
from dalston_queue.jobs.order.share import Budget, Group, WaitingGroup, next_groups
from dalston_queue.jobs.order.spending import Spending
from dalston_queue.jobs.order.waiting import Found, groups, in_flight, oldest, oldest_of
from dalston_queue.jobs.order.window import LaneTier, Windows
from dalston_queue.jobs.order.withdrawal import make_room
from dalston_queue.models import Limit, StagePause
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)
BATCH = 500
"""Tasks of one transaction."""
NO_BOUND = 1_000_000

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('dalston_window'), hashtext(%s))"
# How many tasks are READY and how many entries the window has, whether there is a limit that may hold tasks of its
# queue, and the projects whose large entries fill their share of Redis.
_STATE = f"""
    SELECT coalesce(ready, 0), coalesce(queued, 0), EXISTS (SELECT FROM dalston_limit WHERE queue IN (%s, '')),
           ARRAY (SELECT project_id FROM ({FULL}) AS full_project)
    FROM ({depth.READY_AND_QUEUED}) AS depth (ready, queued)"""  # noqa: S608 - constants


class _Claimers:
    """The engines that are alive, whose slots decide how long a window is, and the queues that they may not claim from.
    Read by each poll, so that a refill after events seldom has to."""

    def __init__(self) -> None:
        self._engines: tuple[EngineInfo, ...] = ()
        self._paused: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._read_from: Broker | None = None

    def windows(self, started: Mapping[LaneTier, int], *, max_age_s: float) -> Windows:
        now, broker = time.monotonic(), get_broker()
        if now - self._read_at >= max_age_s or broker is not self._read_from:
            self._engines = tuple(broker.registry.engines())
            self._paused = frozenset(StagePause.objects.values_list("queue", flat=True))
            self._read_at, self._read_from = now, broker
        return Windows(settings.DALSTON_WINDOW, self._engines, started, self._paused)


_claimers = _Claimers()


def refill(
    lanes: Collection[str] | None,
    now: datetime,
    started: Mapping[LaneTier, int] | None = None,
    ready: Sequence[Moved] = (),
    at_most: int = NO_BOUND,
    *,
    eager: int = 0,
) -> int:
    """Refill the windows of these lanes, or of all, that have less than half of their size; returns how many tasks were
    queued. `started`: what engines have just started. `ready`: tasks of one lane and tier that have just become READY,
    if that is all that has happened. `at_most`: so many for each window; the next refill goes on. `eager`: so many also
    for a window of which half is there still, even if it is full: for tasks of a project that has none in it.

    While Redis is full the tasks stay READY in Postgres: the orchestrator must go on applying events, or nothing would
    ever drain Redis.
    """
    windows = _claimers.windows(started or {}, max_age_s=0.5 if lanes is None else 2)
    bounds = _Bounds(at_most, eager)
    waiting = _waiting(lanes, ready if len(ready) <= windows.at_least else ())
    queued = 0
    skipped: list[ReadyTask] = []
    try:
        for found in sorted(waiting, key=lambda each: windows.rank(each.lane_tier)):  # as limits go by it
            if bounds.room(found.queued, windows.size(found.lane_tier)):
                queued += _fill(found.lane_tier, windows, now, ready, skipped, bounds)
        # The jobs were locked by another process. A poll leaves them to the next one; for these there may be none.
        if skipped and lanes is not None:
            queued += len(append_ready(skipped, now, skip_locked=False))
    except Denied as error:
        log.warning("redis is full; ready tasks wait in postgres", lanes=len(waiting), error=str(error))
    return queued


def _waiting(lanes: Collection[str] | None, ready: Sequence[Moved]) -> list[LaneDepth]:
    """The lanes and tiers with READY tasks. The one of a few tasks that have just become READY need not be looked up:
    it is the one of an idle system."""
    if ready:
        return [LaneDepth(ready[0].lane, ready[0].tier, len(ready), queued=0, running=0)]
    return [found for found in depth.depths(lanes) if found.ready > 0]


def _fill(
    lane_tier: LaneTier,
    windows: Windows,
    now: datetime,
    ready: Sequence[Moved],
    skipped: list[ReadyTask],
    bounds: _Bounds,
) -> int:
    """Fill one window, batch by batch."""
    queued = 0
    while True:
        filled = _fill_batch(lane_tier, windows, now, ready, bounds.after(queued))
        if filled.queued:
            crash_points.point("refill.committed")
        queued += len(filled.queued)
        skipped += filled.skipped
        if not filled.more or queued >= bounds.at_most:
            return queued


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How many tasks a refill queues in a window."""

    at_most: int
    eager: int
    is_first: bool = True  # of its transactions

    @property
    def batch(self) -> int:
        return min(BATCH, self.at_most)

    def room(self, in_window: int, size: int) -> int:
        """A window is filled when half of it is gone, not with each task."""
        if self.is_first and 2 * in_window >= size:
            return max(0, min(self.eager, size + size // 2 - in_window))
        return max(0, min(self.batch, size - in_window))

    def after(self, queued: int) -> _Bounds:
        return replace(self, at_most=self.at_most - queued, is_first=not queued)


@dataclass(frozen=True, slots=True)
class _Filled:
    queued: frozenset[UUID] = frozenset()
    skipped: tuple[ReadyTask, ...] = ()  # their jobs were locked, and no limit applies
    more: bool = False  # the window may have room for more that wait


@transaction.atomic
def _fill_batch(
    lane_tier: LaneTier, windows: Windows, now: datetime, just_ready: Sequence[Moved], bounds: _Bounds
) -> _Filled:
    queue, size = queue_of_lane(lane_tier[0]), windows.size(lane_tier)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [" ".join(lane_tier)])
        crash_points.point("refill.locked")
        cursor.execute(_STATE, [queue, settings.DALSTON_MAX_REDIS_BYTES, *lane_tier])
        ready, in_window, is_limited, full = cursor.fetchone()
    room = bounds.room(in_window, size)
    if not room:
        return _Filled()
    if ready <= room and not full and not is_limited:
        chosen: Sequence[ReadyTask] = just_ready if len(just_ready) == ready else oldest(lane_tier, room)
    else:
        waiting = groups(lane_tier)
        limits = locked_limits(queue, [each.group for each in waiting]) if is_limited else []
        if limits:
            waiting = [each for each in waiting if each.project_id not in full]
            return _fill_within(limits, lane_tier, windows, waiting, min(room, ready), now)
        chosen = _next(lane_tier, windows, waiting, room, full)
    queued = append_ready(chosen, now)
    more = bool(queued) and ready > room and (room == bounds.batch or len(chosen) < room)
    return _Filled(queued, _without(chosen, queued), more)


def _next(
    lane_tier: LaneTier, windows: Windows, found: list[WaitingGroup], room: int, full: Collection[UUID]
) -> list[Found]:
    """The next tasks by their groups' shares. A group alone has no need of them."""
    waiting = [each for each in found if each.project_id not in full]
    if len(found) == len(waiting) <= 1:
        return oldest(lane_tier, room)
    flying = in_flight(lane_tier, windows)
    return oldest_of(lane_tier, next_groups(waiting, flying.before, room, queued=flying.queued_before))


def _fill_within(
    limits: Sequence[Limit],
    lane_tier: LaneTier,
    windows: Windows,
    waiting: list[WaitingGroup],
    room: int,
    now: datetime,
) -> _Filled:
    """Fill a window within these limits, which are locked."""
    waiting_groups = [each.group for each in waiting]
    flying = in_flight(lane_tier, windows)

    def choose(budgets: Sequence[Budget]) -> list[Group]:
        return next_groups(waiting, flying.before, room, budgets, queued=flying.queued_before)

    spending = Spending.of(limits, flying, waiting_groups, now)
    wanted = choose(spending.budgets())
    if len(wanted) < room and make_room(spending, lane_tier, windows, choose, now):
        flying = in_flight(lane_tier, windows)
        spending = Spending.of(limits, flying, waiting_groups, now)
        wanted = choose(spending.budgets())
    chosen = oldest_of(lane_tier, wanted)
    queued = append_ready(chosen, now)
    spending.spend([task.group for task in chosen if task.task_id in queued])
    return _Filled(queued, more=bool(queued) and len(chosen) < len(wanted))


def _without(chosen: Sequence[ReadyTask], queued: frozenset[UUID]) -> tuple[ReadyTask, ...]:
    return tuple(found for found in chosen if found.task_id not in queued)
