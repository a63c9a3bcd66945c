"""Which shard holds what. A task lives in exactly one; registry, leases, commands and job hints live in the home
shard."""

from __future__ import annotations

from dalston_queue.broker.connection.shard import Shard
from dalston_queue.broker.connection.urls import Route
from dalston_queue.broker.protocol.types import Priority


class Topology:
    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._routes = routes
        self.home = routes[-1].shard
        self.shards: tuple[Shard, ...] = tuple(sorted({r.shard for r in routes}, key=lambda shard: shard.index))

    def shard_for(self, queue: str, priority: Priority) -> Shard:
        if len(self.shards) == 1:
            return self.home
        return next(route.shard for route in self._routes if route.matches(queue, priority))

    def shards_of(self, queue: str) -> tuple[Shard, ...]:
        """Every shard that may hold tasks of this queue, highest priority first."""
        if len(self.shards) == 1:
            return self.shards
        return tuple(dict.fromkeys(self.shard_for(queue, priority) for priority in Priority))
