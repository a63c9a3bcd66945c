"""The lanes of a queue: which capability sets exist, pausing, retiring, and the ghosts in their groups."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dalston_queue.broker.connection.shard import Shard, command, pairs
from dalston_queue.broker.protocol.types import TIERS
from dalston_queue.broker.protocol.validate import capability_sets, text

PAUSED = "#paused"
VERSION = "#v"


class Lanes(msgspec.Struct, frozen=True):
    """The capability sets of one queue in one shard, and the version that grows with each change."""

    version: bytes | None  # None: the queue has no lane yet
    capabilities: tuple[str, ...]

    def readable_by(self, capabilities: Iterable[str]) -> tuple[str, ...]:
        """The sets that an engine with these capabilities satisfies; the plain lane always."""
        have = set(capabilities)
        fitting = {lane for lane in self.capabilities if lane and have.issuperset(lane.split("+"))}
        return ("", *sorted(fitting))


def lane_field(capabilities: str) -> str:
    """The field of a lane in `lanes:S`. Its value has a mark per tier: 1 when something undelivered may stand in it."""
    return f"@{capabilities}"


def read_lanes(shard: Shard, queue: str) -> Lanes:
    names: list[bytes] = shard.command("HGETALL", shard.keys.lanes(queue))
    fields = dict(pairs(names))
    return Lanes(fields.get(VERSION.encode()), capability_sets(fields))


def set_paused(shard: Shard, queue: str, paused: bool) -> None:
    key = shard.keys.lanes(queue)
    if paused:
        shard.run("put_field", [key], [PAUSED, 1, 0])
    else:
        shard.command("HDEL", key, PAUSED)
        lanes = read_lanes(shard, queue).capabilities
        shard.calls([command("RPUSH", shard.keys.wake(queue, lane), 1) for lane in lanes])


def retire_empty(shard: Shard, queue: str) -> list[str]:
    """Delete lanes without any entry, to make room under the cap of 32: append does so when it needs a new one."""
    keys = shard.keys

    def retired(lane: str) -> bool:
        names = [keys.lanes(queue), keys.wake(queue, lane), *keys.lane(queue, lane)]
        return bool(shard.run("retire_lane", names, [lane]))

    return [lane for lane in read_lanes(shard, queue).capabilities if retired(lane)]


def streams(shard: Shard, queue: str) -> list[str]:
    """Every stream of a queue, capability sets in order, tiers in claiming order."""
    return [key for lane in read_lanes(shard, queue).capabilities for key in shard.keys.lane(queue, lane)]


def acknowledge_ghosts(shard: Shard, queue: str, page: int = 500) -> int:
    """Only for a queue with a stream that holds fewer entries than are pending: walks all its PELs once, in pages."""
    found = 0
    for stream in streams(shard, queue):
        after: str | bytes = "-"
        while after:
            after, ghosts = shard.run("ghosts", [stream], [after, page])
            found += len(ghosts)
    return found


def delete_queue(shard: Shard, queue: str) -> None:
    keys = shard.keys
    lanes = read_lanes(shard, queue).capabilities
    engines: list[bytes] = shard.command("HKEYS", keys.beats(queue))
    doomed = [
        keys.tasks(queue),
        keys.running(queue),
        keys.deadlines(queue),
        keys.ageing(queue),
        keys.moving(queue),
        keys.beats(queue),
        keys.verdicts(queue),
        keys.events(queue),
        keys.counters(queue),
        keys.lanes(queue),
        *(keys.wake(queue, lane) for lane in lanes),
        *(keys.stream(queue, lane, tier) for lane in lanes for tier in TIERS),
        *(keys.session(queue, text(engine)) for engine in engines),
    ]
    shard.calls([*(command("UNLINK", key) for key in doomed), command("SREM", keys.stages(), queue)])
