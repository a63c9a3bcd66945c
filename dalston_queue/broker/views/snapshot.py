"""Snapshot: the numbers of every lane, exact and in O(lanes), and rates between two. snapshot_reader.py reads them."""

from __future__ import annotations

import hashlib

import msgspec

from dalston_queue.broker.protocol.types import Tier

ENDS = (
    "completed",
    "failed",
    "cancelled",
    "expired",
    "exhausted",
    "removed",
    "dead_lettered",
)  # counters of what left for good


RUNS = ("completed", "failed", "cancelled", "expired", "exhausted")  # counters of what an engine had

LANE_NAME = 200
"""The most characters of a lane's name. A queue and 16 capabilities of 40 characters each are more than that."""


MAX_AGED_SAMPLES = 100
"""How many waiting entries that are older than their position shows (promoted, rebuilt: `ageing:S`) are sampled for the
oldest, beside the first of each lane. The next to be promoted come first, so of more than these the oldest of a lane
may be missed. So it may in a tier that doesn't age, where only the first entry is sampled: a task that was recovered
after a younger one is behind it. An age shown is never more than the true one."""


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
    oldest_age_ms: (
        int | None
    )  # of the undelivered entries, since first enqueued; MAX_AGED_SAMPLES says where it may be less
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
    counters: dict[str, int]  # appended, completed, failed, cancelled, recovered, exhausted, refused, dead_lettered …

    @property
    def ran(self) -> int:
        """Attempts that ever ended at an engine: each made room for the next."""
        return sum(self.counters.get(name, 0) for name in RUNS)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int  # by the clock of the home shard's server
    queues: list[QueueStats]


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    in_per_s: float
    out_per_s: float


def rates(before: Snapshot, after: Snapshot) -> dict[str, Rates]:
    """Per lane (by LaneStats.name) and per queue (by queue name). A lane made anew in between counts from zero."""
    seconds = (after.at_ms - before.at_ms) / 1000
    if seconds <= 0:
        return {}
    old_lanes = {lane.name: lane for queue in before.queues for lane in queue.lanes}
    old_queues = {queue.queue: queue.counters for queue in before.queues}
    found: dict[str, Rates] = {}
    for queue in after.queues:
        old = old_queues.get(queue.queue, {})
        found[queue.queue] = Rates(
            in_per_s=_grown(old, queue.counters, ("appended",)) / seconds,
            out_per_s=_grown(old, queue.counters, ENDS) / seconds,
        )
        for lane in queue.lanes:
            was = old_lanes.get(lane.name)
            added, removed = (was.added, was.removed) if was and was.added <= lane.added else (0, 0)
            found[lane.name] = Rates(
                in_per_s=(lane.added - added) / seconds, out_per_s=max(lane.removed - removed, 0) / seconds
            )
    return found


def _grown(old: dict[str, int], new: dict[str, int], names: tuple[str, ...]) -> int:
    return sum(max(new.get(name, 0) - old.get(name, 0), 0) for name in names)
