"""Pages of a queue's tasks: running tasks by idle time or deadline, and the waiting or running tasks of one stream.

Running tasks come from the sorted sets, never from a walk of the PEL. A stream's page begins at an entry id, so that
page one thousand costs as much as page one. Payloads stay in Redis.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dalston_queue.broker.connection.shard import Shard, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.lanes import read_lanes
from dalston_queue.broker.protocol.record import Record, decode_record
from dalston_queue.broker.protocol.types import TIERS, Tier
from dalston_queue.broker.protocol.validate import number, text


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


class LaneTier(msgspec.Struct, frozen=True):
    """One stream of a queue, by its capability set and tier."""

    capabilities: str = ""
    tier: Tier = Tier.MEDIUM


class WaitingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One undelivered entry. `task_id` is empty for an entry that can't be read; claiming dead-letters it."""

    lane_tier: LaneTier
    entry_id: str
    task_id: str
    job_id: str
    attempt: int
    enqueued_at_ms: int


def pending(
    topology: Topology,
    queue: str,
    *,
    order: PendingOrder = PendingOrder.IDLE,
    offset: int = 0,
    limit: int = 50,
    min_idle_ms: int = 0,
    overdue_by_ms: int | None = None,
) -> PendingPage:
    """A page of running tasks. min_idle_ms: only tasks not renewed for so long (order IDLE). overdue_by_ms: only tasks
    past their deadline by so much (order DEADLINE). With several shards each returns its first offset + limit, and the
    page is cut from the merged order."""
    shards = topology.shards_of(queue)
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
                found.append((float(score), _entry(shard, queue, text(task), record, now)))
    if len(shards) > 1:
        found = sorted(found, key=lambda item: item[0])[offset : offset + limit]
    return PendingPage(entries=[entry for _, entry in found], total=total, at_ms=now)


def waiting(
    topology: Topology,
    queue: str,
    *,
    lane_tier: LaneTier | None = None,
    after: str = "",
    limit: int = 50,
    onward: bool = False,
) -> list[WaitingEntry]:
    """The tasks to be claimed next: of one stream after an entry, or of all streams in claiming order. `onward`: after
    that entry, and of the streams behind its own."""
    found: list[WaitingEntry] = []
    for shard in topology.shards_of(queue):
        lane_tiers = [lane_tier] if lane_tier and not onward else _lane_tiers(shard, queue)
        if lane_tier in lane_tiers:
            lane_tiers = lane_tiers[lane_tiers.index(lane_tier) :]
        afters = [after if each == lane_tier else "" for each in lane_tiers]
        keys = [shard.keys.stream(queue, each.capabilities, each.tier) for each in lane_tiers]
        pages = zip(keys, afters, strict=True)
        replies = shard.all([script("waiting_page", [key], [entry, limit]) for key, entry in pages])
        for found_in, rows in zip(lane_tiers, replies, strict=True):
            found += [_waiting(found_in, *row) for row in rows]
    return sorted(found, key=lambda entry: TIERS.index(entry.lane_tier.tier))[:limit]


def held(
    topology: Topology,
    queue: str,
    *,
    lane_tier: LaneTier | None = None,
    engine_id: str = "",
    after: str = "",
    limit: int = 50,
) -> list[PendingEntry]:
    """Running tasks of one stream, or of one engine, or both; by entry id within a stream. `after` needs a stream."""
    found: list[PendingEntry] = []
    for shard in topology.shards_of(queue):
        lane_tiers = [lane_tier] if lane_tier else _lane_tiers(shard, queue)
        tasks = shard.keys.tasks(queue)
        keys = [[shard.keys.stream(queue, each.capabilities, each.tier), tasks] for each in lane_tiers]
        asked = [script("held_page", key, [after if lane_tier else "", limit, engine_id]) for key in keys]
        for now, rows in shard.all(asked):
            for _, task, raw in rows:
                record = decode_record(raw)
                if record is not None:
                    found.append(_entry(shard, queue, text(task), record, now))
    return found[:limit]


def _lane_tiers(shard: Shard, queue: str) -> list[LaneTier]:
    lanes = read_lanes(shard, queue).capabilities
    return [LaneTier(lane, tier) for tier in TIERS for lane in lanes]


def _waiting(
    lane_tier: LaneTier, entry: bytes, task: bytes, job: bytes, attempt: bytes, enqueued: bytes
) -> WaitingEntry:
    return WaitingEntry(
        lane_tier=lane_tier,
        entry_id=entry.decode(),
        task_id=text(task),
        job_id=text(job),
        attempt=number(attempt) or 0,
        enqueued_at_ms=number(enqueued) or int(entry.split(b"-")[0]),
    )


def _entry(shard: Shard, queue: str, task_id: str, record: Record, now: int) -> PendingEntry:
    return PendingEntry(
        queue=queue,
        task_id=task_id,
        idle_ms=now - record.renewed_at_ms,
        running_ms=now - record.claimed_at_ms,
        overdue_ms=now - record.deadline_ms if record.deadline_ms else 0,
        record=record,
        shard=shard.index,
    )
