"""Snapshot: the numbers of every tier of every lane, exact and in O(lanes), and rates between two."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dalston_queue.broker.connection.shard import Call, Shard, command, milliseconds, pairs, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.operations.lanes import PAUSED
from dalston_queue.broker.protocol import validate
from dalston_queue.broker.protocol.types import TIERS, Tier

RUNS = ("completed", "failed", "cancelled", "expired", "exhausted")  # counters of attempts that ended at an engine
ENDS = (*RUNS, "removed", "dead_lettered")  # counters of attempts that left the queue for good

MAX_LANE_NAME = 200
"""Characters of a lane's name. A queue and 16 capabilities of 40 characters each are more than that."""


class LaneStats(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a lane: the numbers of one stream."""

    queue: str
    capabilities: str
    tier: Tier
    stream: str
    shard: int
    length: int  # XLEN
    pending: int  # claimed, not settled
    lag: int  # undelivered: length - pending
    consistent: bool  # False: lag is negative, the PEL has ghosts; the reconciler acknowledges them
    consumers: int
    oldest_age_ms: int | None  # of the tasks that wait, since first enqueued
    added: int  # entries ever added, for rates
    removed: int  # entries ever removed (settled, cancelled or moved), for rates
    ready: int = 0  # wait in Postgres until the window has room; jobs/queries/lanes.py adds them

    @property
    def waiting(self) -> int:
        return self.ready + max(self.lag, 0)

    @property
    def name(self) -> str:
        """The name of this stream in the whole deployment, for its samples. A long name ends in a hash."""
        whole = f"{self.shard} {self.stream}"
        if len(whole) <= MAX_LANE_NAME:
            return whole
        return f"{whole[: MAX_LANE_NAME - 17]} {hashlib.blake2s(whole.encode(), digest_size=8).hexdigest()}"


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    lanes: list[LaneStats]
    running: int
    events_backlog: int
    paused: bool
    counters: dict[str, int]  # appended, completed, failed, cancelled, recovered, exhausted, refused, dead_lettered …

    @property
    def ready(self) -> int:
        """Tasks that wait in Postgres until a window has room."""
        return sum(lane.ready for lane in self.lanes)

    @property
    def waiting(self) -> int:
        """Tasks that no engine has: those in Postgres, and those in the windows."""
        return sum(lane.waiting for lane in self.lanes)

    @property
    def oldest_age_ms(self) -> int | None:
        return max((lane.oldest_age_ms for lane in self.lanes if lane.oldest_age_ms is not None), default=None)

    @property
    def ran(self) -> int:
        """Attempts that ever ended at an engine."""
        return sum(self.counters.get(name, 0) for name in RUNS)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int  # by the clock of the home shard's server
    queues: list[QueueStats]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    in_per_s: float
    out_per_s: float


def rates(before: Snapshot, after: Snapshot) -> dict[str, Rates]:
    """Per lane (by LaneStats.name) and per queue (by queue name). A lane that was deleted and created in between counts
    from zero. What came in is what went into the window and what is left in Postgres."""
    seconds = (after.at_ms - before.at_ms) / 1000
    if seconds <= 0:
        return {}
    old_lanes = {lane.name: lane for queue in before.queues for lane in queue.lanes}
    old_queues = {queue.queue: queue for queue in before.queues}
    found: dict[str, Rates] = {}
    for queue in after.queues:
        old = old_queues.get(queue.queue)
        counters, ready = (old.counters, old.ready) if old else ({}, 0)
        found[queue.queue] = Rates(
            in_per_s=max(_grown(counters, queue.counters, ("appended",)) + queue.ready - ready, 0) / seconds,
            out_per_s=_grown(counters, queue.counters, ENDS) / seconds,
        )
        for lane in queue.lanes:
            was = old_lanes.get(lane.name)
            ready = was.ready if was else 0
            added, removed = (was.added, was.removed) if was and was.added <= lane.added else (0, 0)
            found[lane.name] = Rates(
                in_per_s=max(lane.added - added + lane.ready - ready, 0) / seconds,
                out_per_s=max(lane.removed - removed, 0) / seconds,
            )
    return found


def _grown(old: dict[str, int], new: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(max(new.get(name, 0) - old.get(name, 0), 0) for name in names)


LanesByQueue = Mapping[str, tuple[str, ...]]
"""Capability sets by queue."""

PLAIN = ("",)
"""The lanes to ask for in a new queue: most queues have no other."""


class SnapshotReader:
    """Reads snapshots in one pipeline per shard, in a cluster one per server.

    Redis knows which queues and lanes there are. The reader asks for the numbers of those that it saw last time, and in
    the same pipeline which there are now. Only for a new queue or lane it asks again.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        # Replaced, never changed. Of two threads the later wins; a queue that it did not see is asked for once more.
        self._seen: dict[Shard, LanesByQueue] = {shard: {} for shard in topology.shards}

    def snapshot(self, wanted: Sequence[str] | None) -> Snapshot:
        by_queue: dict[str, list[_Part]] = {}
        home = self._topology.home
        at_ms = 0
        for shard in self._topology.shards:
            more = [home.clock] if shard is home else []
            parts, replies = self._read(shard, wanted, more)
            for queue, part in parts.items():
                by_queue.setdefault(queue, []).append(part)
            if shard is home:
                at_ms = milliseconds(replies[0])
        queues = [_merged(queue, parts) for queue, parts in sorted(by_queue.items())]
        return Snapshot(at_ms=at_ms, queues=queues)

    def _read(
        self, shard: Shard, wanted: Sequence[str] | None, more: Sequence[Call]
    ) -> tuple[dict[str, _Part], list[Any]]:
        """The numbers by queue, and the replies to `more`."""
        seen = self._seen[shard]
        asked: LanesByQueue = {queue: lanes for queue, lanes in seen.items() if wanted is None or queue in wanted}
        stages = command("SMEMBERS", shard.keys.stages())
        members, *replies = shard.readable([stages, *more, *_calls(shard, asked)])
        names = set(
            shard.queues() if members is None else shard.names_of_queues(members)
        )  # raises if `stages` has another type
        found, missing = _parts(shard, asked, replies[len(more) :])
        missing |= {name: PLAIN for name in names if name not in asked and (wanted is None or name in wanted)}
        while missing:
            more_found, missing = _parts(shard, missing, shard.all(_calls(shard, missing)))
            found |= more_found
        found = {queue: part for queue, part in found.items() if queue in names}
        now_seen = {**seen, **{queue: part.capabilities for queue, part in found.items()}}
        self._seen[shard] = {queue: lanes for queue, lanes in now_seen.items() if queue in names}
        return found, replies[: len(more)]


class _Part(msgspec.Struct):
    """The numbers of one queue in one shard."""

    backlog: int
    counters: dict[str, int]
    paused: bool
    running: int
    capabilities: tuple[str, ...]  # of its lanes
    lanes: list[LaneStats]  # those that were asked for and exist


def _calls(shard: Shard, lanes: LanesByQueue) -> list[Call]:
    """The numbers of these lanes, a call per queue."""
    keys = shard.keys
    calls = []
    for queue, names in lanes.items():
        head = [keys.events(queue), keys.counters(queue), keys.lanes(queue), keys.running(queue)]
        streams = [key for lane in names for key in keys.lane(queue, lane)]
        calls.append(script("queue_stats", [*head, *streams]))
    return calls


def _parts(
    shard: Shard, asked: LanesByQueue, replies: list[Any]
) -> tuple[dict[str, _Part], dict[str, tuple[str, ...]]]:
    """The numbers by queue, and all lanes of the queues that have more lanes than were asked for."""
    found, grown = {}, {}
    for (queue, lanes), reply in zip(asked.items(), replies, strict=True):
        part = _part(shard, queue, lanes, reply)
        if set(part.capabilities).issubset(lanes):
            found[queue] = part
        else:
            grown[queue] = part.capabilities
    return found, grown


def _part(shard: Shard, queue: str, asked: tuple[str, ...], reply: list[Any]) -> _Part:
    now, backlog, counters, fields, running, streams = reply
    there = validate.capability_sets(fields)
    lane_tiers = [(lane, tier) for lane in asked for tier in TIERS]
    return _Part(
        backlog=backlog,
        counters=validate.counters(pairs(counters)),
        paused=PAUSED.encode() in fields,
        running=running,
        capabilities=there,
        lanes=[
            _lane(shard, queue, lane, tier, now, numbers)
            for (lane, tier), numbers in zip(lane_tiers, streams, strict=True)
            if lane in there
        ],
    )


def _lane(shard: Shard, queue: str, lane: str, tier: Tier, now: int, numbers: list[int]) -> LaneStats:
    length, pending, consumers, oldest, added = numbers
    return LaneStats(
        queue=queue,
        capabilities=lane,
        tier=tier,
        stream=shard.keys.stream(queue, lane, tier),
        shard=shard.index,
        length=length,
        pending=pending,
        lag=length - pending,
        consistent=length >= pending,
        consumers=consumers,
        oldest_age_ms=max(now - oldest, 0) if oldest >= 0 else None,
        added=added,
        removed=added - length,
    )


def _merged(queue: str, parts: list[_Part]) -> QueueStats:
    lanes = [lane for part in parts for lane in part.lanes]
    counters: dict[str, int] = {}
    for part in parts:
        for name, value in part.counters.items():
            counters[name] = counters.get(name, 0) + value
    return QueueStats(
        queue=queue,
        lanes=lanes,
        running=sum(part.running for part in parts),
        events_backlog=sum(part.backlog for part in parts),
        paused=any(part.paused for part in parts),
        counters=counters,
    )
