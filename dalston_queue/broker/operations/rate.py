"""Request rates in a sliding window, exact: one sorted set per caller, at most as long as its largest limit."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from dalston_queue.broker.connection.topology import Topology


class Limit(msgspec.Struct, frozen=True):
    count: int
    window_s: int


def take_rate(topology: Topology, caller: str, limits: Sequence[Limit]) -> float:
    """Count one request of this caller. Returns 0, or the seconds after which it may try again (then not
    counted)."""
    ordered = sorted(limits, key=lambda limit: limit.window_s)
    arguments = [value for limit in ordered for value in (limit.count, limit.window_s * 1000)]
    home = topology.home
    wait_ms = home.run("take_token", [home.keys.rate(caller)], [secrets.token_hex(8), *arguments])
    return int(wait_ms) / 1000
