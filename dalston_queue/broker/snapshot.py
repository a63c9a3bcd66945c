"""Numbers of every lane, exact and in O(lanes): one read-only script per queue, one pipeline for all."""

from __future__ import annotations

import msgspec

from dalston_queue.broker.types import Tier


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
    """Per lane (by stream key) and per queue (by queue name)."""
    raise NotImplementedError
