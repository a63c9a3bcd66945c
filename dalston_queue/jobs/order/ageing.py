"""Ageing: a task that has waited long counts as one of the next higher priority. One step per run.

A READY task gets its new effective priority by an UPDATE. A task in a window is withdrawn from Redis first: it could
wait there for ever below an endless load of higher priority. What an engine claims meanwhile is left alone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from dalston_queue import crash_points
from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.broker.protocol.types import Priority, Removed, Tier
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_tasks
from dalston_queue.jobs.order.depth import depths
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.order.window import LaneTier
from dalston_queue.redis import get_broker

AGED = """
    SELECT id, job_id, attempt FROM dalston_task
    WHERE status = 'ready' AND lane = %s AND tier = %s AND first_enqueued_at <= %s
    ORDER BY first_enqueued_at, id LIMIT %s"""
# Not what an engine had before: it waits in front of the others.
AGED_IN_WINDOW = """
    SELECT id, job_id, attempt FROM dalston_task
    WHERE queue = %s AND status = 'queued' AND lane = %s AND tier = %s AND event_seq = 0 AND first_enqueued_at <= %s
    LIMIT %s"""

Row = tuple[UUID, UUID, int]


def promotions() -> dict[Tier, tuple[Priority, timedelta]]:
    """From which tier to which priority, and after which wait since the first enqueue. The higher tier first: a task
    climbs one step per run."""
    return {
        Tier.MEDIUM: (Priority.HIGH, timedelta(seconds=settings.DALSTON_MEDIUM_TO_HIGH_S)),
        Tier.LOW: (Priority.MEDIUM, timedelta(seconds=settings.DALSTON_LOW_TO_MEDIUM_S)),
    }


def promote_aged(now: datetime) -> dict[str, int]:
    """Promote every task that has waited long enough; returns how many, by lane."""
    found = depths()
    promoted: dict[str, int] = {}
    for tier in promotions():
        for each in found:
            if each.tier == tier and each.ready + each.queued:
                count = _promote_tier(each.lane_tier, now)
                if count:
                    promoted[each.lane] = promoted.get(each.lane, 0) + count
    if promoted:
        refill(promoted, now)
    return promoted


def _promote_tier(lane_tier: LaneTier, now: datetime) -> int:
    size: int = settings.DALSTON_PROMOTE_BATCH
    count = _withdraw(lane_tier, now, size)
    while moved := _promote_ready(lane_tier, now, size):
        count += moved
        if moved < size:
            break
    return count


@transaction.atomic
def _promote_ready(lane_tier: LaneTier, now: datetime, size: int) -> int:
    _, wait = promotions()[Tier(lane_tier[1])]
    with connection.cursor() as cursor:
        cursor.execute(AGED, [*lane_tier, now - wait, size])
        rows: list[Row] = cursor.fetchall()
    jobs = lock_jobs((job for _, job, _ in rows), skip_locked=True)
    return _promote([row for row in rows if row[1] in jobs], lane_tier[1], now)


@transaction.atomic
def _withdraw(lane_tier: LaneTier, now: datetime, size: int) -> int:
    """Take aged tasks out of their window. A crash before the commit leaves them QUEUED without an entry: the
    reconciler gives them their next attempt."""
    lane, tier = lane_tier
    _, wait = promotions()[Tier(tier)]
    queue = queue_of_lane(lane)
    with connection.cursor() as cursor:
        cursor.execute(AGED_IN_WINDOW, [queue, lane, tier, now - wait, size])
        rows: list[Row] = cursor.fetchall()
    if not rows:
        return 0
    jobs = lock_jobs((job for _, job, _ in rows), skip_locked=True)
    broker = get_broker()
    records = broker.records(queue, [str(task) for task, _, _ in rows])
    # With an event that is not applied yet an engine had it: it waits in front, and its event numbers have gone on.
    fresh = {task for task, record in records.items() if record.seq == 0}
    mine = [row for row in rows if row[1] in jobs and str(row[0]) in fresh]
    outcomes = broker.remove_many(queue, [(str(task), attempt) for task, _, attempt in mine])
    crash_points.point("ageing.withdrawn")
    gone = [row for row, outcome in zip(mine, outcomes, strict=True) if outcome is Removed.REMOVED]
    return _promote(gone, tier, now)


def _promote(rows: Sequence[Row], tier: str, now: datetime) -> int:
    to, wait = promotions()[Tier(tier)]
    message = f"from {tier} to {to}: it has waited {wait.total_seconds() / 60:g} min"
    changes = [Change(task_id=task, attempt=attempt, at=now, message=message, priority=to) for task, _, attempt in rows]
    return len(move_tasks("promote", changes))
