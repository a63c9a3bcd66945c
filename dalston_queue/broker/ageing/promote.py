"""Ageing: who has waited long enough counts as the next higher priority. policy.py decides; a script moves, or
migrate.py if the new tier lives in another shard.

The front of a lane shows who waits longest there, because a lane is in the order of arrival. Entries that are older
than their place shows (promoted before, rebuilt) stand in the sorted set `ageing:S` by the time they are due.
"""

from __future__ import annotations

from dalston_queue.broker.ageing.migrate import carry, put_in_lane, resume
from dalston_queue.broker.ageing.policy import PROMOTIONS, is_due
from dalston_queue.broker.connection.shard import Shard, pairs
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.lanes import read_lanes
from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.record import decode_record
from dalston_queue.broker.protocol.types import Priority, RecordState, Tier


def promote(topology: Topology, queue: str, *, now_ms: int | None = None, batch: int = 100) -> list[Event]:
    """One batch of ageing per shard, after what an earlier pass left half-done; the events (task.promoted, with the new
    tier) are also in the event stream. Call again while it returns a full batch. now_ms only for tests; the default is
    the server's clock."""
    moved = resume(topology, queue, batch)
    for shard in topology.shards_of(queue):
        moved += _promote(topology, shard, queue, shard.now_ms() if now_ms is None else now_ms, batch)
    return moved


def _promote(topology: Topology, shard: Shard, queue: str, now_ms: int, batch: int) -> list[Event]:
    """The due ones of the higher tier first, so that a task climbs one step per round."""
    moved: list[Event] = []
    for lane in read_lanes(shard, queue).capabilities:
        for tier in (Tier.MEDIUM, Tier.LOW):
            room = batch - len(moved)
            if room > 0:
                due = _due(shard, queue, lane, tier, now_ms, room)
                to = PROMOTIONS[tier][0]
                target = topology.shard_for(queue, Priority(to))
                if target is not shard:
                    moved += carry(shard, target, queue, lane, tier, due)
                elif due:
                    stream = shard.keys.stream(queue, lane, tier)
                    moved += put_in_lane(shard, queue, lane, stream, to, [(task, "") for task in due])
    return moved


def _due(shard: Shard, queue: str, lane: str, tier: Tier, now_ms: int, batch: int) -> list[str]:
    keys = shard.keys
    stream = keys.stream(queue, lane, tier)
    due: dict[str, None] = {}
    for _, fields in shard.run("front", [stream], [batch]):
        values = dict(pairs(fields))
        try:
            task, since = values[b"t"].decode(), int(values[b"h"].split(b"\t")[3])
        except (KeyError, IndexError, ValueError):
            continue  # unreadable: the engine that claims it buries it
        if not is_due(tier, since, now_ms):
            break
        due[task] = None
    old: list[bytes] = shard.command("ZRANGE", keys.ageing(queue), "-inf", now_ms, "BYSCORE", "LIMIT", 0, batch)
    if old:
        for task_bytes, raw in zip(old, shard.command("HMGET", keys.tasks(queue), *old), strict=True):
            record = decode_record(raw) if raw else None
            if not task_bytes.isascii():  # a foreign hand's
                shard.command("ZREM", keys.ageing(queue), task_bytes)
            elif record is None or record.state is not RecordState.WAITING or record.stream == stream:
                due[task_bytes.decode()] = None  # the script forgets those that don't wait any more
    return list(due)[:batch]
