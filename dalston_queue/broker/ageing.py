"""Ageing: who has waited long enough to count as the next higher priority. Deciding is pure; a script moves.

The front of a lane shows who waits longest there, because a lane is in the order of arrival. Entries that are older
than their place shows (promoted before, rebuilt) stand in the sorted set `ageing:S` by the time they are due.
"""

from __future__ import annotations

from dalston_queue.broker.dispatch import append_to_tier
from dalston_queue.broker.lanes import lane_field, read_lanes
from dalston_queue.broker.messages import Event, TaskMessage, decode_task, encode_head
from dalston_queue.broker.promotion import PROMOTIONS, is_due, promoted_after_ms
from dalston_queue.broker.record import Record, decode_record
from dalston_queue.broker.removal import cancel, read_records
from dalston_queue.broker.shard import Argument, Shard, pairs
from dalston_queue.broker.topology import Topology
from dalston_queue.broker.types import EventKind, Priority, RecordState, Removed, Tier, tier_number


def promote(topology: Topology, queue: str, now_ms: int | None, batch: int) -> list[Event]:
    """One batch per shard."""
    moved: list[Event] = []
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
                target = topology.shard_for(queue, Priority(PROMOTIONS[tier][0]))
                moved += (
                    _move(shard, queue, lane, tier, due) if target is shard else _carry(shard, target, queue, tier, due)
                )
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
            if record is None or record.state is not RecordState.WAITING or record.stream == stream:
                due[task_bytes.decode()] = None  # the script forgets those that don't wait any more
    return list(due)[:batch]


def _move(shard: Shard, queue: str, lane: str, tier: Tier, tasks: list[str]) -> list[Event]:
    if not tasks:
        return []
    keys = shard.keys
    target, _ = PROMOTIONS[tier]
    names = [keys.tasks(queue), keys.ageing(queue), keys.events(queue), keys.counters(queue), keys.wake(queue, lane)]
    streams = [keys.stream(queue, lane, tier), keys.stream(queue, lane, target)]
    arguments: list[Argument] = [target, promoted_after_ms(target), lane_field(lane), tier_number(target), *tasks]
    answers = shard.run("promote", [*names, *streams, keys.lanes(queue)], arguments)
    return [
        Event(
            kind=EventKind.TASK_PROMOTED,
            job_id=answer[0].decode(),
            task_id=task,
            queue=queue,
            attempt=answer[1],
            seq=answer[2],
            deliveries=answer[3],
            losses=answer[4],
            tier=target,
            shard=shard.index,
        )
        for task, answer in zip(tasks, answers, strict=True)
        if answer
    ]


def _carry(shard: Shard, target: Shard, queue: str, tier: Tier, tasks: list[str]) -> list[Event]:
    """To another shard: remove there, append here. A death in between is healed by the reconciler."""
    events = []
    for task_id, record in read_records(shard, queue, tasks).items():
        rows = shard.command("XRANGE", record.stream, record.entry_id, record.entry_id) if record.stream else []
        message = _message(queue, rows[0][1], record) if rows else None
        if message is None or cancel(shard, queue, task_id, record.attempt, flag=False) is not Removed.REMOVED:
            continue  # claimed or removed meanwhile
        seq, to = record.seq + 1, PROMOTIONS[tier][0]
        append_to_tier(target, message, to, seq)
        event = Event(
            kind=EventKind.TASK_PROMOTED,
            job_id=message.job_id,
            task_id=task_id,
            queue=queue,
            attempt=record.attempt,
            seq=seq,
            deliveries=record.deliveries,
            losses=record.losses,
            tier=to,
            shard=target.index,
        )
        target.command("XADD", target.keys.events(queue), "*", "h", encode_head(event), "m", "")
        events.append(event)
    return events


def _message(queue: str, fields: list[bytes], record: Record) -> TaskMessage | None:
    """None: unreadable; the engine that claims it buries it."""
    f = dict(pairs(fields))
    try:
        values = (f[b"t"], record.job_id.encode(), b"%d" % record.attempt, f[b"h"], f[b"m"])
    except KeyError:
        return None
    message = decode_task(queue, (*values, b"%d" % record.deliveries, b"%d" % record.losses))
    return message if isinstance(message, TaskMessage) else None
