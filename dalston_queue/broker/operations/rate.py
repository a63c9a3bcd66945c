"""Request rates in a sliding window, exact: one sorted set per caller, at most as long as its largest limit."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from dalston_queue.broker.connection.shard import Shard


class Limit(msgspec.Struct, frozen=True):
    count: int
    window_s: int


def take(shard: Shard, caller: str, limits: Sequence[Limit]) -> float:
    """Count one request of this caller. Returns 0, or the seconds after which it may try again."""
    ordered = sorted(limits, key=lambda limit: limit.window_s)
    arguments = [value for limit in ordered for value in (limit.count, limit.window_s * 1000)]
    wait_ms = shard.run("take_token", [shard.keys.rate(caller)], [secrets.token_hex(8), *arguments])
    return int(wait_ms) / 1000
