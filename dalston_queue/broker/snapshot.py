"""Numbers of every lane, exact and in O(lanes): one read-only script per queue, one pipeline for all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from dalston_queue.broker.keys import JOBS
from dalston_queue.broker.shard import Shard, command, pairs, script
from dalston_queue.broker.topology import Topology
from dalston_queue.broker.types import TIERS, Tier

ENDS = (
    "completed",
    "failed",
    "cancelled",
    "expired",
    "exhausted",
    "removed",
    "buried",
)  # counters of what left for good


LANE_NAME = 200
"""The most characters of a lane's name. A queue and 16 capabilities of 40 characters each are more than that."""


class LaneStats(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    capabilities: str
    tier: Tier
    stream: str
    shard: int
    length: int  # XLEN
    pending: int  # claimed, not settled
    lag: int  # waiting: length - pending
    consistent: bool  # False: lag is negative, the PEL has ghosts; the reconciler acknowledges them
    consumers: int
    oldest_age_ms: int | None  # age of the first undelivered entry since it was first enqueued
    added: int  # entries ever added, for rates
    removed: int  # entries ever removed (settled, cancelled or moved), for rates

    @property
    def name(self) -> str:
        """One lane of the whole deployment, under which its samples are kept. A long one ends in a hash."""
        whole = f"{self.shard} {self.stream}"
        if len(whole) <= LANE_NAME:
            return whole
        return f"{whole[: LANE_NAME - 17]} {hashlib.blake2s(whole.encode(), digest_size=8).hexdigest()}"


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    lanes: list[LaneStats]
    waiting: int
    running: int
    oldest_age_ms: int | None
    events_backlog: int
    paused: bool
    counters: dict[str, int]  # appended, started, completed, failed, cancelled, recovered, exhausted, refused, buried …


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int  # by the Redis server's clock
    queues: list[QueueStats]
    jobs_backlog: int


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    in_per_s: float
    out_per_s: float


def rates(before: Snapshot, after: Snapshot) -> dict[str, Rates]:
    """Per lane (by stream key) and per queue (by queue name). A lane made anew in between counts from zero."""
    seconds = (after.at_ms - before.at_ms) / 1000
    if seconds <= 0:
        return {}
    old_lanes = {(lane.shard, lane.stream): lane for queue in before.queues for lane in queue.lanes}
    old_queues = {queue.queue: queue.counters for queue in before.queues}
    found: dict[str, Rates] = {}
    for queue in after.queues:
        old = old_queues.get(queue.queue, {})
        found[queue.queue] = Rates(
            in_per_s=_grown(old, queue.counters, ("appended",)) / seconds,
            out_per_s=_grown(old, queue.counters, ENDS) / seconds,
        )
        for lane in queue.lanes:
            was = old_lanes.get((lane.shard, lane.stream))
            added, removed = (was.added, was.removed) if was and was.added <= lane.added else (0, 0)
            found[lane.stream] = Rates(
                in_per_s=(lane.added - added) / seconds, out_per_s=max(lane.removed - removed, 0) / seconds
            )
    return found


def _grown(old: dict[str, int], new: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(max(new.get(name, 0) - old.get(name, 0), 0) for name in names)


def take_snapshot(topology: Topology, queues: Sequence[str] | None) -> Snapshot:
    by_queue: dict[str, list[_Part]] = {}
    at_ms = 0
    for shard in topology.shards:
        for queue, part in _read_shard(shard, queues):
            by_queue.setdefault(queue, []).append(part)
            at_ms = max(at_ms, part.now)
    jobs = topology.home.command("XLEN", topology.home.keys.events(JOBS))
    if not at_ms:
        at_ms = topology.home.now_ms()
    return Snapshot(
        at_ms=at_ms, queues=[_merged(queue, parts) for queue, parts in sorted(by_queue.items())], jobs_backlog=jobs
    )


class _Part(msgspec.Struct):
    """What one shard says of one queue."""

    now: int
    backlog: int
    counters: dict[str, int]
    paused: bool
    running: int
    lanes: list[LaneStats]


def _read_shard(shard: Shard, wanted: Sequence[str] | None) -> Iterator[tuple[str, _Part]]:
    """Two round trips: which lanes there are, then all numbers in one pipeline."""
    keys = shard.keys
    queues = shard.queues()
    if wanted is not None:
        queues = [queue for queue in queues if queue in wanted]
    fields = shard.all([command("HKEYS", keys.lanes(queue)) for queue in queues])
    places: list[list[tuple[str, Tier]]] = []
    calls = []
    for queue, names in zip(queues, fields, strict=True):
        lanes = sorted(name[1:].decode() for name in names if name.startswith(b"@"))
        places.append([(lane, tier) for lane in lanes for tier in TIERS])
        streams = [keys.stream(queue, lane, tier) for lane, tier in places[-1]]
        head = [keys.events(queue), keys.counters(queue), keys.lanes(queue), keys.running(queue)]
        calls.append(script("queue_stats", [*head, *streams]))
    for queue, lanes_of, reply in zip(queues, places, shard.all(calls), strict=True):
        now, backlog, counters, paused, running, streams_stats = reply
        yield (
            queue,
            _Part(
                now=now,
                backlog=backlog,
                counters={n.decode(): int(v) for n, v in pairs(counters)},
                paused=paused is not None,
                running=running,
                lanes=[
                    _lane(shard, queue, lane, tier, now, numbers)
                    for (lane, tier), numbers in zip(lanes_of, streams_stats, strict=True)
                ],
            ),
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
    ages = [lane.oldest_age_ms for lane in lanes if lane.oldest_age_ms is not None]
    counters: dict[str, int] = {}
    for part in parts:
        for name, value in part.counters.items():
            counters[name] = counters.get(name, 0) + value
    return QueueStats(
        queue=queue,
        lanes=lanes,
        waiting=sum(max(lane.lag, 0) for lane in lanes),
        running=sum(part.running for part in parts),
        oldest_age_ms=max(ages, default=None),
        events_backlog=sum(part.backlog for part in parts),
        paused=any(part.paused for part in parts),
        counters=counters,
    )
