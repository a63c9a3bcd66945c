"""Ageing: a task that has waited long counts as one of the next higher priority. One step per run.

A READY task gets its new effective priority by an UPDATE. What has an entry is withdrawn from Redis first: it could
wait there for ever below an endless load of higher priority. What an engine claims meanwhile is left alone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.broker.protocol.types import Priority, Removed, Tier
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_tasks
from dalston_queue.jobs.order.depth import depths
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.order.window import LaneTier
from dalston_queue.jobs.order.withdrawal import Row, remove_entries

AGED = """
    SELECT id, job_id, attempt FROM dalston_task
    WHERE status = 'ready' AND lane = %s AND tier = %s AND first_enqueued_at <= %s
    ORDER BY first_enqueued_at, id LIMIT %s"""
# Not what an engine had before: it waits in front of the others.
AGED_IN_WINDOW = """
    SELECT id, job_id, attempt FROM dalston_task
    WHERE queue = %s AND status = 'queued' AND lane = %s AND tier = %s AND event_seq = 0 AND first_enqueued_at <= %s
    LIMIT %s"""


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
    lane, tier = lane_tier
    _, wait = promotions()[Tier(tier)]
    size: int = settings.DALSTON_PROMOTE_BATCH
    count = _promote_batch(lane_tier, AGED_IN_WINDOW, [queue_of_lane(lane), *lane_tier, now - wait, size], _GONE, now)
    while moved := _promote_batch(lane_tier, AGED, [*lane_tier, now - wait, size], _NOT_IN_REDIS, now):
        count += moved
        if moved < size:
            break
    return count


# A READY task may have an entry as well: a refill that died after its append left it. In the lower tier it would wait
# behind all others.
_GONE = frozenset({Removed.REMOVED})
_NOT_IN_REDIS = frozenset({Removed.REMOVED, Removed.ABSENT})


@transaction.atomic
def _promote_batch(
    lane_tier: LaneTier, aged: str, arguments: list[Any], wanted: frozenset[Removed], now: datetime
) -> int:
    """Take aged tasks out of Redis and promote those that are not there any more. A crash before the commit leaves some
    QUEUED without an entry: the reconciler gives them their next attempt."""
    lane, tier = lane_tier
    with connection.cursor() as cursor:
        cursor.execute(aged, arguments)
        rows: list[Row] = cursor.fetchall()
    if not rows:
        return 0
    jobs = lock_jobs((job for _, job, _ in rows), skip_locked=True)
    mine = [row for row in rows if row[1] in jobs]
    outcomes = remove_entries(queue_of_lane(lane), mine)
    return _promote([row for row in mine if outcomes.get(row[0]) in wanted], tier, now)


def _promote(rows: Sequence[Row], tier: str, now: datetime) -> int:
    to, wait = promotions()[Tier(tier)]
    message = f"from {tier} to {to}: it has waited {wait.total_seconds() / 60:g} min"
    changes = [Change(task_id=task, attempt=attempt, at=now, message=message, priority=to) for task, _, attempt in rows]
    return len(move_tasks("promote", changes))
