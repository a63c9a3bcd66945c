"""Carrying waiting tasks to the shard of their new tier: two servers, so no script sees both. Any step may be the last.

1. The new shard writes down what will come: a reservation, which no engine claims. (reserve.lua)
2. The old shard takes the entry out of its lane if nothing has happened to it, and notes for which reservation. This
   decides. (depart.lua)
3. The new shard puts the reserved entry in its lane, with the event. (promote.lua)
4. The old shard forgets its note. (forget_move.lua)

At any moment at most one entry can be claimed, and one of the shards knows the task. The next pass finds reservations
and notes, and goes on where the last one ended: step 2 is asked again, so a reservation is put in line only if the task
left for it, and is forgotten if it was claimed or removed instead; a note without its reservation has arrived. Two
passes at once do the same steps twice, which changes nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

import msgspec

from dalston_queue.broker.ageing.policy import PROMOTIONS, promoted_after_ms
from dalston_queue.broker.connection.shard import Argument, Shard, command, pairs, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.errors import Denied
from dalston_queue.broker.operations.lanes import lane_field, retire_empty
from dalston_queue.broker.operations.records import read_records
from dalston_queue.broker.protocol.keys import MAX_LANES
from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import EventKind, Priority, RecordState, Tier, tier_number

log = logging.getLogger(__name__)
MAX_BATCH_BYTES = 1 << 20
_FROM: dict[str, Tier] = {target: tier for tier, (target, _) in PROMOTIONS.items()}
_RESERVATION = re.compile(r"(?P<tier>[a-z]+):(?P<entry>[0-9]{1,18}-[0-9]{1,18})")  # `for` of a note
_NAMES = (b"t", b"for", b"to", b"lane")  # fields of an entry of `moving`
Waiting = tuple[str, Record, bytes, bytes]  # task, its record, head and JSON of its entry


class Move(msgspec.Struct, frozen=True):
    """A task on its way, as it was seen in its old lane."""

    task_id: str
    attempt: int
    seq: int
    reservation: str  # entry id in the new shard


def carry(shard: Shard, target: Shard, queue: str, lane: str, tier: Tier, tasks: Sequence[str]) -> list[Event]:
    """These, which wait in this lane, to the shard of the next higher tier."""
    if not tasks:
        return []
    to = PROMOTIONS[tier][0]
    moves: list[Move] = []
    try:
        moves += reserve(target, queue, lane, to, list(_waiting(shard, queue, lane, tier, tasks)))
    except Denied as error:
        log.warning("%s tasks of %s stay where they are: %s", len(tasks), queue, error)
    found = {move.task_id for move in moves}
    # those that don't wait any more go along: the script takes them off the list of the aged
    moves += [Move(task, 0, 0, "") for task in tasks if task not in found]
    return _complete([shard], target, queue, lane, to, moves)


def resume(topology: Topology, queue: str, batch: int) -> list[Event]:
    """Complete what an earlier pass left half-done."""
    shards = topology.shards_of(queue)
    moved: list[Event] = []
    if len(shards) == 1:
        return moved
    key = shards[0].keys.moving(queue)
    notes: list[tuple[Shard, str, str, re.Match[str]]] = []
    for shard in shards:
        reserved: dict[tuple[str, Tier], list[tuple[str, str]]] = {}
        for entry, fields in shard.command("XRANGE", key, "-", "+", "COUNT", batch):
            values = {name: value.decode(errors="replace") for name, value in pairs(fields) if name in _NAMES}
            task, entry_id = values.get(b"t", ""), entry.decode()
            note = _RESERVATION.fullmatch(values.get(b"for", ""))
            if note and note["tier"] in _FROM:
                notes.append((shard, task, entry_id, note))
            elif values.get(b"to") in _FROM and b"lane" in values:
                reserved.setdefault((values[b"lane"][1:], Tier(values[b"to"])), []).append((task, entry_id))
            else:
                forget(shard, queue, [(task, entry_id)])  # a foreign hand
        others = [other for other in shards if other is not shard]
        for (lane, to), found in reserved.items():
            moved += _complete(others, shard, queue, lane, to, _moves(shard, queue, found))
    for shard, task, entry_id, note in notes:
        target = topology.shard_for(queue, Priority(note["tier"]))
        # the reservation was there first: if it is gone, the task has arrived, or was removed
        if not target.command("XRANGE", key, note["entry"], note["entry"]):
            forget(shard, queue, [(task, entry_id)])
    return moved


def _moves(shard: Shard, queue: str, reserved: Sequence[tuple[str, str]]) -> list[Move]:
    """From entries of `moving`. One that its record does not name any more is forgotten."""
    records = read_records(shard, queue, [task for task, _ in reserved])
    moves, stale = [], []
    for task, entry_id in reserved:
        record = records.get(task)
        if record and record.state is RecordState.WAITING and record.entry_id == entry_id:
            moves.append(Move(task, record.attempt, record.seq, entry_id))
        else:
            stale.append((task, entry_id))
    forget(shard, queue, stale)
    return moves


def _complete(
    sources: Sequence[Shard], target: Shard, queue: str, lane: str, to: Tier, moves: Sequence[Move]
) -> list[Event]:
    """Steps 2 to 4. `sources`: where the tasks may have been."""
    moved: list[Event] = []
    left = list(moves)
    for source in sources:
        notes = depart(source, queue, lane, to, left)
        gone = [(move, note) for move, note in zip(left, notes, strict=True) if note]
        if gone:
            stream = target.keys.moving(queue)
            moved += put_in_lane(target, queue, lane, stream, to, [(m.task_id, m.reservation) for m, _ in gone])
            forget(source, queue, [(move.task_id, note) for move, note in gone])
        left = [move for move, note in zip(left, notes, strict=True) if not note]
    forget(target, queue, [(move.task_id, move.reservation) for move in left if move.reservation])
    return moved


def reserve(shard: Shard, queue: str, lane: str, to: Tier, found: Sequence[Waiting]) -> list[Move]:
    """Step 1. Those whose attempt this shard knows already are not in the answer. Raises Denied."""
    keys = shard.keys
    names = [keys.tasks(queue), keys.lanes(queue), keys.moving(queue)]
    moves: list[Move] = []
    for batch in _batches(found):
        arguments: list[Argument] = [lane_field(lane), MAX_LANES, to]
        for task, record, head, body in batch:
            arguments += (task, record.attempt, record.seq, record.job_id, record.timeout_ms)
            arguments += (record.deliveries, record.losses, head, body)
        call = script("reserve", names, arguments)
        # named first, so that whoever walks the queues sees it
        _, reply = shard.all([command("SADD", keys.stages(), queue), call])
        if reply == b"LANES" and retire_empty(shard, queue):
            reply = shard.call(call)
        if reply == b"LANES":
            log.warning("tasks of %s stay where they are: no lane %s can be added in %s", queue, lane, shard.name)
            return moves
        for (task, record, _, _), answer in zip(batch, reply, strict=True):
            if answer:
                moves.append(Move(task, record.attempt, record.seq, answer.decode()))
    return moves


def depart(shard: Shard, queue: str, lane: str, to: Tier, moves: Sequence[Move]) -> list[str]:
    """Step 2. Returns the id of each note, "" for those that did not leave."""
    if not moves:
        return []
    keys = shard.keys
    names = [keys.tasks(queue), keys.ageing(queue), keys.moving(queue), keys.stream(queue, lane, _FROM[to])]
    arguments: list[Argument] = []
    for move in moves:
        arguments += (move.task_id, move.attempt, move.seq, f"{to}:{move.reservation}")
    return [answer.decode() for answer in shard.run("depart", names, arguments)]


def put_in_lane(
    shard: Shard, queue: str, lane: str, stream: str, to: Tier, tasks: Sequence[tuple[str, str]]
) -> list[Event]:
    """From this stream to a tier of the lane: tasks, each with its reservation or "". Step 3."""
    keys = shard.keys
    names = [keys.tasks(queue), keys.ageing(queue), keys.events(queue), keys.counters(queue), keys.wake(queue, lane)]
    arguments: list[Argument] = [to, promoted_after_ms(to), lane_field(lane), tier_number(to)]
    for pair in tasks:
        arguments += pair
    answers = shard.run("promote", [*names, stream, keys.stream(queue, lane, to), keys.lanes(queue)], arguments)
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
            tier=to,
            shard=shard.index,
        )
        for (task, _), answer in zip(tasks, answers, strict=True)
        if answer
    ]


def forget(shard: Shard, queue: str, entries: Sequence[tuple[str, str]]) -> None:
    """Step 4, or the end of a reservation that nothing came for: task and entry of `moving`."""
    if entries:
        arguments: list[Argument] = [word for entry in entries for word in entry]
        shard.run("forget_move", [shard.keys.tasks(queue), shard.keys.moving(queue)], arguments)


def _waiting(shard: Shard, queue: str, lane: str, tier: Tier, tasks: Sequence[str]) -> Iterator[Waiting]:
    """Those of these that wait there and can be read; the engine that claims another one buries it."""
    stream = shard.keys.stream(queue, lane, tier)
    records = {
        task: record
        for task, record in read_records(shard, queue, tasks).items()
        if record.state is RecordState.WAITING and record.stream == stream
    }
    rows = shard.all([command("XRANGE", stream, record.entry_id, record.entry_id) for record in records.values()])
    for (task, record), found in zip(records.items(), rows, strict=True):
        values = dict(pairs(found[0][1])) if found else {}
        if values.get(b"t") == task.encode() and b"h" in values and b"m" in values:
            yield task, record, values[b"h"], values[b"m"]


def _batches(found: Sequence[Waiting]) -> Iterator[list[Waiting]]:
    """For one call each: the server does other work in between."""
    batch: list[Waiting] = []
    size = 0
    for each in found:
        if batch and size + len(each[3]) > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each[3])
    if batch:
        yield batch
