"""Refill: appends the next READY tasks to the windows that have room.

Any orchestrator may refill: the one that applied starts and settlements, the one that made tasks READY, and each of
them once a second. One transaction per window; its advisory lock, or the rows of the limits that apply, keep others out
of the same window meanwhile, and the locks of the jobs keep a task from being queued twice.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from dalston_queue.jobs.lifecycle.dispatch import append_ready
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.depth import LaneDepth
from dalston_queue.jobs.order.large import full_projects
from dalston_queue.jobs.order.limits import Spending, limits_of
from dalston_queue.jobs.order.share import next_groups
from dalston_queue.jobs.order.waiting import Found, groups, in_flight, oldest, oldest_of
from dalston_queue.jobs.order.window import LaneTier, Windows
from dalston_queue.models import Limit
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)
BATCH = 500
"""Tasks of one transaction."""

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('dalston_window'), hashtext(%s))"


class _Engines:
    """The engines that are alive, read once a second: their slots decide how long a window is."""

    def __init__(self) -> None:
        self._engines: tuple[EngineInfo, ...] = ()
        self._read_at = float("-inf")
        self._read_from: Broker | None = None

    def read(self) -> tuple[EngineInfo, ...]:
        now, broker = time.monotonic(), get_broker()
        if now - self._read_at >= 1 or broker is not self._read_from:
            self._engines = tuple(broker.registry.engines())
            self._read_at, self._read_from = now, broker
        return self._engines


_engines = _Engines()


def refill(lanes: Collection[str] | None, now: datetime, started: Mapping[LaneTier, int] | None = None) -> int:
    """Refill the windows of these lanes, or of all, that have less than half of their size; returns how many tasks were
    queued. `started`: what engines have just started.

    While Redis is full the tasks stay READY in Postgres: the orchestrator must go on applying events, or nothing would
    ever drain Redis.
    """
    waiting = [found for found in depth.depths(lanes) if found.ready > 0]
    if not waiting:
        return 0
    full = full_projects()
    windows = Windows(settings.DALSTON_WINDOW, _engines.read(), started or {})
    queued = 0
    skipped: list[Found] = []
    try:
        for found in waiting:
            size = windows.size(found.lane_tier)
            if 2 * found.queued < size:
                queued += _fill(found, size, now, skipped, full)
        # The jobs were locked by another process. A poll leaves them to the next one; for these there may be none.
        if skipped and lanes is not None:
            queued += len(append_ready(skipped, now, skip_locked=False))
    except Denied as error:
        log.warning("redis is full; ready tasks wait in postgres", lanes=len(waiting), error=str(error))
    return queued


def _fill(found: LaneDepth, size: int, now: datetime, skipped: list[Found], full: frozenset[UUID]) -> int:
    """Fill one window, batch by batch."""
    queued = 0
    while True:
        filled = _fill_batch(found, size, now, full)
        if filled.queued:
            crash_points.point("refill.committed")
        queued += len(filled.queued)
        skipped += filled.skipped
        if not filled.more:
            return queued


@dataclass(frozen=True, slots=True)
class _Filled:
    queued: frozenset[UUID] = frozenset()
    skipped: tuple[Found, ...] = ()  # their jobs were locked, and no limit applies
    more: bool = False  # the window may have room for more that wait


@transaction.atomic
def _fill_batch(found: LaneDepth, size: int, now: datetime, full: frozenset[UUID]) -> _Filled:
    """`full`: projects whose large entries fill their share of Redis."""
    lane_tier, queue = found.lane_tier, queue_of_lane(found.lane)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [" ".join(lane_tier)])
    limits = limits_of(queue, lock=True)
    crash_points.point("refill.locked")
    room = min(BATCH, size - depth.queued(lane_tier))
    if room <= 0:
        return _Filled()
    if limits:
        return _fill_within(limits, lane_tier, room, now, full)
    alone = found.ready <= room and not full
    chosen: Sequence[Found] = oldest(lane_tier, room) if alone else _next(lane_tier, queue, room, full)
    queued = append_ready(chosen, now)
    more = bool(queued) and found.ready > room and (room == BATCH or len(chosen) < room)
    return _Filled(queued, _without(chosen, queued), more)


def _next(lane_tier: LaneTier, queue: str, room: int, full: frozenset[UUID]) -> list[Found]:
    """The next tasks by their groups' shares. A group alone has no need of them."""
    found = groups(lane_tier)
    waiting = [each for each in found if each.project_id not in full]
    if len(found) == len(waiting) <= 1:
        return oldest(lane_tier, room)
    flying = in_flight(queue)
    return oldest_of(lane_tier, next_groups(waiting, flying.all, room, queued=flying.queued))


def _fill_within(
    limits: Sequence[Limit], lane_tier: LaneTier, room: int, now: datetime, full: frozenset[UUID]
) -> _Filled:
    """Fill a window within these limits, which are locked."""
    flying = in_flight(queue_of_lane(lane_tier[0]))
    waiting = [each for each in groups(lane_tier) if each.project_id not in full]
    spending = Spending.of(limits, flying.all, [each.group for each in waiting], now)
    wanted = next_groups(waiting, flying.all, room, spending.budgets, queued=flying.queued)
    chosen = oldest_of(lane_tier, wanted)
    queued = append_ready(chosen, now)
    spending.spend([found.group for found in chosen if found.task_id in queued])
    return _Filled(queued, more=bool(queued) and len(chosen) < len(wanted))


def _without(chosen: Sequence[Found], queued: frozenset[UUID]) -> tuple[Found, ...]:
    return tuple(found for found in chosen if found.task_id not in queued)
