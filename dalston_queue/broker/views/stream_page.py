"""Pages of one lane as people look at it: who waits in it, and what of it is held, by whom. Each page begins at an
entry id, so that page one thousand costs as much as page one, and no payload travels."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dalston_queue.broker.connection.shard import Shard, script
from dalston_queue.broker.operations.lanes import read_lanes
from dalston_queue.broker.protocol.record import decode_record
from dalston_queue.broker.protocol.types import TIERS, Tier
from dalston_queue.broker.protocol.validate import number, text
from dalston_queue.broker.views.pending import PendingEntry, entry_of


class LanePlace(msgspec.Struct, frozen=True):
    """One stream of a queue, named as people name it."""

    capabilities: str = ""
    tier: Tier = Tier.MEDIUM


class WaitingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One undelivered entry. `task_id` is empty for bytes that nobody can read; claiming buries them."""

    place: LanePlace
    entry_id: str
    task_id: str
    job_id: str
    attempt: int
    enqueued_at_ms: int


def waiting_page(
    shards: Sequence[Shard], queue: str, place: LanePlace | None, after: str, limit: int
) -> list[WaitingEntry]:
    """The front of the line: of one lane after an entry, or of all lanes in claiming order."""
    found: list[WaitingEntry] = []
    for shard in shards:
        places = [place] if place else _places(shard, queue)
        keys = [shard.keys.stream(queue, p.capabilities, p.tier) for p in places]
        replies = shard.all([script("waiting_page", [key], [after if place else "", limit]) for key in keys])
        for its_place, rows in zip(places, replies, strict=True):
            found += [_waiting(its_place, *row) for row in rows]
    return sorted(found, key=lambda entry: TIERS.index(entry.place.tier))[:limit]


def held_page(
    shards: Sequence[Shard], queue: str, place: LanePlace | None, engine_id: str, after: str, limit: int
) -> list[PendingEntry]:
    """What is pending in one lane, or held by one engine, or both. By entry id within a lane."""
    found: list[PendingEntry] = []
    for shard in shards:
        places = [place] if place else _places(shard, queue)
        tasks = shard.keys.tasks(queue)
        keys = [[shard.keys.stream(queue, p.capabilities, p.tier), tasks] for p in places]
        asked = [script("held_page", key, [after if place else "", limit, engine_id]) for key in keys]
        for now, rows in shard.all(asked):
            for _, task, raw in rows:
                record = decode_record(raw)
                if record is not None:
                    found.append(entry_of(shard, queue, text(task), record, now))
    return found[:limit]


def _places(shard: Shard, queue: str) -> list[LanePlace]:
    lanes = read_lanes(shard, queue).capabilities
    return [LanePlace(lane, tier) for tier in TIERS for lane in lanes]


def _waiting(place: LanePlace, entry: bytes, task: bytes, job: bytes, attempt: bytes, enqueued: bytes) -> WaitingEntry:
    return WaitingEntry(
        place=place,
        entry_id=entry.decode(),
        task_id=text(task),
        job_id=text(job),
        attempt=number(attempt) or 0,
        enqueued_at_ms=number(enqueued) or int(entry.split(b"-")[0]),
    )
