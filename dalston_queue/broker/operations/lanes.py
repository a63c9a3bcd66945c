"""Queues and their lanes: list, pause, retire, forget, delete, and acknowledge ghosts (entries without a payload)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dalston_queue.broker.connection.shard import Shard, command, pairs
from dalston_queue.broker.connection.topology import Topology
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
    """The field of a lane in `lanes:S`. Its value has a mark per tier: 1 when it may have an undelivered entry."""
    return f"@{capabilities}"


def queues(topology: Topology) -> list[str]:
    """All queues, without a scan."""
    return sorted({name for shard in topology.shards for name in shard.queues()})


def lanes(topology: Topology, queue: str) -> list[str]:
    """Capability sets that have a lane in this queue ("" is the plain one)."""
    return sorted({lane for shard in topology.shards_of(queue) for lane in read_lanes(shard, queue).capabilities})


def all_lanes(topology: Topology) -> set[str]:
    """Every lane of every queue, by its name outside of Redis: one round trip per server."""
    found: set[str] = set()
    for shard in topology.shards:
        names = shard.queues()
        replies = shard.readable([command("HKEYS", shard.keys.lanes(queue)) for queue in names])
        for queue, fields in zip(names, replies, strict=True):
            found |= {f"{queue}@{lane}" if lane else queue for lane in ("", *capability_sets(fields or ()))}
    return found


def forget_lane(topology: Topology, lane: str) -> bool:
    """Delete the keys of a capability set without any entry, or of a queue that nothing uses. False: it is in use."""
    queue, _, capabilities = lane.partition("@")
    gone = [_forget(shard, queue, capabilities) for shard in topology.shards_of(queue)]
    return all(gone)


def pause(topology: Topology, queue: str) -> None:
    """Engines claim nothing from this queue until resume()."""
    for shard in topology.shards_of(queue):
        shard.run("put_field", [shard.keys.lanes(queue)], [PAUSED, 1, 0])


def resume(topology: Topology, queue: str) -> None:
    for shard in topology.shards_of(queue):
        shard.command("HDEL", shard.keys.lanes(queue), PAUSED)
        sets = read_lanes(shard, queue).capabilities
        shard.calls([command("RPUSH", shard.keys.wake(queue, lane), 1) for lane in sets])


def reset_queue(topology: Topology, queue: str) -> None:
    """Delete every key of this queue. For tests and for an operator who has removed a stage."""
    for shard in topology.shards_of(queue):
        _delete(shard, queue)


def acknowledge_ghosts(topology: Topology, queue: str) -> int:
    """Acknowledge pending entries whose payload is gone (XDEL by another program, a trim). Append finds that their
    tasks have no entry, and adds one. For a queue with a stream that holds fewer entries than are pending: walks all
    its PELs once, in pages. Returns how many."""
    return sum(_acknowledge_ghosts(shard, queue) for shard in topology.shards_of(queue))


def read_lanes(shard: Shard, queue: str) -> Lanes:
    names: list[bytes] = shard.command("HGETALL", shard.keys.lanes(queue))
    fields = dict(pairs(names))
    return Lanes(fields.get(VERSION.encode()), capability_sets(fields))


def retire_empty(shard: Shard, queue: str) -> list[str]:
    """Delete lanes without any entry, to make room under the cap of 32: append does so when it needs a new one. The
    plain lane stays: it takes no room."""
    return [lane for lane in read_lanes(shard, queue).capabilities if lane and _forget(shard, queue, lane)]


def _forget(shard: Shard, queue: str, capabilities: str) -> bool:
    keys = shard.keys
    if capabilities:
        names = [keys.lanes(queue), keys.wake(queue, capabilities), *keys.lane(queue, capabilities)]
        return bool(shard.run("retire_lane", names, [capabilities]))
    names = [keys.tasks(queue), keys.running(queue), keys.events(queue), keys.beats(queue), keys.lanes(queue)]
    names += [
        *keys.lane(queue, ""),
        keys.wake(queue),
        keys.deadlines(queue),
        keys.verdicts(queue),
        keys.counters(queue),
    ]
    if not keys.cluster:
        return bool(shard.run("forget_queue", [*names, keys.stages()], [queue]))
    # The names are on another server. An append names its queue before and after it adds to it: if it came in between,
    # the queue has its lanes again, and gets its name back.
    if not shard.run("forget_queue", names, [""]):
        return False
    shard.command("SREM", keys.stages(), queue)
    if shard.command("EXISTS", keys.lanes(queue)):
        shard.command("SADD", keys.stages(), queue)
        return False
    return True


def streams(shard: Shard, queue: str) -> list[str]:
    """Every stream of a queue, capability sets in order, tiers in claiming order."""
    return [key for lane in read_lanes(shard, queue).capabilities for key in shard.keys.lane(queue, lane)]


def _acknowledge_ghosts(shard: Shard, queue: str, page: int = 500) -> int:
    found = 0
    for stream in streams(shard, queue):
        after: str | bytes = "-"
        while after:
            after, ghosts = shard.run("ghosts", [stream], [after, page])
            found += len(ghosts)
    return found


def _delete(shard: Shard, queue: str) -> None:
    keys = shard.keys
    sets = read_lanes(shard, queue).capabilities
    engines: list[bytes] = shard.command("HKEYS", keys.beats(queue))
    keys_of_queue = [
        keys.tasks(queue),
        keys.running(queue),
        keys.deadlines(queue),
        keys.beats(queue),
        keys.verdicts(queue),
        keys.events(queue),
        keys.counters(queue),
        keys.lanes(queue),
        *(keys.wake(queue, lane) for lane in sets),
        *(keys.stream(queue, lane, tier) for lane in sets for tier in TIERS),
        *(keys.session(queue, text(engine)) for engine in engines),
    ]
    shard.calls([*(command("UNLINK", key) for key in keys_of_queue), command("SREM", keys.stages(), queue)])
