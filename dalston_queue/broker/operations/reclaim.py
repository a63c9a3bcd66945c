"""Taking work back from engines that are gone, and single tasks from engines that overdo them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from dalston_queue.broker.connection.shard import Argument, Shard, command
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.errors import WrongKeyType
from dalston_queue.broker.operations.cancel import follow
from dalston_queue.broker.operations.lanes import lane_field, read_lanes, streams
from dalston_queue.broker.protocol.keys import WORK_GROUP
from dalston_queue.broker.protocol.messages import MAX_ENTRY_BYTES, ErrorInfo, encode_error
from dalston_queue.broker.protocol.types import Cause


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """What one take-back did. Each task also got its event (task.recovered or task.exhausted)."""

    alive: bool = False  # the beat counter moved since it was judged: nothing was touched
    recovered: tuple[str, ...] = ()  # task ids, in line again
    exhausted: tuple[str, ...] = ()  # task ids whose delivery budget is used up
    lost: tuple[str, ...] = ()  # entry ids whose payload is gone; the reconciler rebuilds them

    @property
    def moved(self) -> int:
        return len(self.recovered) + len(self.exhausted)


class Expired(StrEnum):
    EXPIRED = "expired"  # taken from its owner, task.failed written
    RENEWED = "renewed"  # it was renewed since it was judged: left alone
    ABSENT = "absent"  # not running at this attempt any more


VERDICT = "verdict"  # in place of a counter: take back only from an engine that is judged dead


class Reclaim(msgspec.Struct, frozen=True, kw_only=True):
    """The request, the same for each queue and shard."""

    engine_id: str
    cause: Cause
    named: str | None
    error: ErrorInfo
    max_deliveries: int
    max_losses: int


Judged = Mapping[str, tuple[int, ...] | str]  # by queue: a counter per shard, or VERDICT


class Place(NamedTuple):
    """A queue in a shard, and the beat counter that the engine was judged at there ("" for none)."""

    shard: Shard
    queue: str
    judged: int | str


def places(topology: Topology, queues: Iterable[str], judged: Judged | None) -> list[Place]:
    found = []
    for queue in queues:
        said = "" if judged is None else judged.get(queue, ())
        for position, shard in enumerate(topology.shards_of(queue)):
            counter = said if isinstance(said, str) else said[position] if position < len(said) else 0
            found.append(Place(shard, queue, counter))
    return found


def reclaim(places: Sequence[Place], request: Reclaim) -> Reclaimed:
    # an engine may hold one task in each of several queues: none of them ran alone
    alone = request.named is None and (
        len(places) == 1 or sum(_held(place, request.engine_id) for place in places) == 1
    )
    total = Reclaimed()
    wrong_type: WrongKeyType | None = None
    for place in places:
        try:
            part = _reclaim(place, request, alone)
        except WrongKeyType as error:  # of one queue: what it holds in others must not wait for it
            wrong_type = error
            continue
        total = Reclaimed(
            alive=total.alive or part.alive,
            recovered=total.recovered + part.recovered,
            exhausted=total.exhausted + part.exhausted,
            lost=total.lost + part.lost,
        )
    if wrong_type:
        raise wrong_type
    return total


def _held(place: Place, engine_id: str) -> int:
    shard, queue, _ = place
    try:
        keys = streams(shard, queue)
    except WrongKeyType:
        return 2  # nobody knows, so nobody ran alone
    asked = [command("XPENDING", key, WORK_GROUP, "-", "+", 2, engine_id) for key in keys]
    replies = shard.calls(asked)  # an error: no such group, so nobody holds anything there
    return sum(len(reply) for reply in replies if isinstance(reply, list))


def _reclaim(place: Place, request: Reclaim, alone: bool) -> Reclaimed:
    shard, queue, judged = place
    keys, engine = shard.keys, request.engine_id
    while True:
        lanes = read_lanes(shard, queue)
        names = [
            keys.session(queue, engine),
            *keys.task_keys(queue),
            keys.beats(queue),
            keys.verdicts(queue),
            keys.lanes(queue),
            *(keys.wake(queue, lane) for lane in lanes.capabilities),
            *(key for lane in lanes.capabilities for key in keys.lane(queue, lane)),
        ]
        arguments: list[Argument] = [
            engine,
            judged,
            lanes.version or "",
            len(lanes.capabilities),
            request.cause,
            request.named or "",
            int(alone),
            request.max_deliveries,
            request.max_losses,
            encode_error(request.error),
            MAX_ENTRY_BYTES,
            *map(lane_field, lanes.capabilities),
        ]
        status, *parts = shard.run("reclaim", names, arguments)
        if status == b"ALIVE":
            return Reclaimed(alive=True)
        if status == b"OK":
            recovered, exhausted, lost = (tuple(item.decode() for item in part) for part in parts)
            return Reclaimed(recovered=recovered, exhausted=exhausted, lost=lost)


def expire(shard: Shard, queue: str, task_id: str, attempt: int, error: ErrorInfo, judged_ms: int | None) -> Expired:
    arguments: list[Argument] = [task_id, attempt, "" if judged_ms is None else judged_ms, encode_error(error)]
    return Expired(follow(shard, "expire", queue, task_id, shard.keys.task_keys(queue), arguments).decode())
