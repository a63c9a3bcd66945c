"""Any page of what is running, from the sorted sets: by idle time or by deadline. Never walks a PEL."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from dalston_queue.broker.connection.shard import Shard
from dalston_queue.broker.protocol.record import Record, decode_record
from dalston_queue.broker.protocol.validate import text


class PendingOrder(StrEnum):
    IDLE = "idle"  # longest without renewal first
    DEADLINE = "deadline"  # next deadline first; entries without one are not listed


class PendingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One running task."""

    queue: str
    task_id: str
    idle_ms: int  # since claim or last renewal
    running_ms: int  # since the claim
    overdue_ms: int  # past its deadline by this much; negative: time left; 0 without a deadline
    record: Record  # owner, attempt, deliveries, progress, cancel, deadline, entry id
    shard: int


class PendingPage(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[PendingEntry]
    total: int
    at_ms: int


def pending_page(
    shards: Sequence[Shard],
    queue: str,
    order: PendingOrder,
    offset: int,
    limit: int,
    min_idle_ms: int,
    overdue_by_ms: int | None,
) -> PendingPage:
    """With several shards each gives its first offset + limit, and the page is cut from the merged order."""
    found: list[tuple[float, PendingEntry]] = []
    total, now = 0, 0
    for shard in shards:
        keys = shard.keys
        index = keys.running(queue) if order is PendingOrder.IDLE else keys.deadlines(queue)
        age = min_idle_ms if order is PendingOrder.IDLE else overdue_by_ms
        high = "inf" if age is None or (order is PendingOrder.IDLE and not age) else str(-age)
        start, count = (offset, limit) if len(shards) == 1 else (0, offset + limit)
        now, matching, rows = shard.run("pending_page", [index, keys.tasks(queue)], [high, start, count])
        total += matching
        for task, score, raw in rows:
            record = decode_record(raw) if raw else None
            if record is not None:
                found.append((float(score), entry_of(shard, queue, text(task), record, now)))
    if len(shards) > 1:
        found = sorted(found, key=lambda item: item[0])[offset : offset + limit]
    return PendingPage(entries=[entry for _, entry in found], total=total, at_ms=now)


def entry_of(shard: Shard, queue: str, task_id: str, record: Record, now: int) -> PendingEntry:
    return PendingEntry(
        queue=queue,
        task_id=task_id,
        idle_ms=now - record.renewed_at_ms,
        running_ms=now - record.claimed_at_ms,
        overdue_ms=now - record.deadline_ms if record.deadline_ms else 0,
        record=record,
        shard=shard.index,
    )
