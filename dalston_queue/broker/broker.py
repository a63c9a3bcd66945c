"""Broker, the facade: one object per process, thread-safe. Each operation is a function of its own module.

An operation takes the shards (`Topology`, which a Broker is) as its first argument. A new one is a function with its
script beside it, and one line here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import msgspec

from dalston_queue.broker.connection.topology import SOCKET_TIMEOUT_S, Route, Topology, routes
from dalston_queue.broker.nodes.commands import NodeChannel
from dalston_queue.broker.nodes.logs import NodeLogs
from dalston_queue.broker.nodes.registry import Registry
from dalston_queue.broker.operations.append import append, publish_jobs_created
from dalston_queue.broker.operations.cancel import remove, remove_many, request_cancel
from dalston_queue.broker.operations.lanes import (
    acknowledge_ghosts,
    all_lanes,
    forget_lane,
    lanes,
    pause,
    queues,
    reset_queue,
    resume,
)
from dalston_queue.broker.operations.reclaim import expire, reclaim
from dalston_queue.broker.operations.records import records, scan_records
from dalston_queue.broker.operations.requeue import requeue
from dalston_queue.broker.orchestrator.events import forget_idle_readers, oldest_event_ms
from dalston_queue.broker.orchestrator.lease import Lease
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.types import Role
from dalston_queue.broker.views.pages import held, pending, waiting
from dalston_queue.broker.views.snapshot import Snapshot, SnapshotReader


class Limit(msgspec.Struct, frozen=True):
    """At most `count` requests of one caller in any `window_s` seconds."""

    count: int
    window_s: int


class Broker(Topology):
    # tasks
    append = append
    publish_jobs_created = publish_jobs_created
    remove = remove
    remove_many = remove_many
    request_cancel = request_cancel
    requeue = requeue
    reclaim = reclaim
    expire = expire
    records = records
    scan_records = scan_records

    # queues
    queues = queues
    lanes = lanes
    all_lanes = all_lanes
    forget_lane = forget_lane
    pause = pause
    resume = resume
    reset_queue = reset_queue
    acknowledge_ghosts = acknowledge_ghosts

    # views
    pending = pending
    waiting = waiting
    held = held

    # events and their readers
    forget_idle_readers = forget_idle_readers
    oldest_event_ms = oldest_event_ms

    def __init__(self, routes: tuple[Route, ...]) -> None:
        super().__init__(routes)
        self.registry = Registry(self)
        self._snapshots = SnapshotReader(self)

    def snapshot(self, queues: Sequence[str] | None = None) -> Snapshot:
        """The numbers of all lanes, or of those of some queues: one round trip per server. One or two more when there
        is a queue or a lane that was not there the last time."""
        return self._snapshots.snapshot(queues)

    def lease(self, role: Role, token: str, ttl_s: float = 30.0) -> Lease:
        return Lease(self.home, role, token, ttl_s)

    def node(self, node_id: str) -> NodeChannel:
        return NodeChannel(self.home, node_id)

    def logs(self, node_id: str) -> NodeLogs:
        return NodeLogs(self.home, node_id)

    def take_rate(self, caller: str, limits: Sequence[Limit]) -> float:
        """Count one request of this caller, in exact sliding windows. Returns 0, or the seconds after which it may try
        again (then not counted)."""
        ordered = sorted(limits, key=lambda limit: limit.window_s)
        arguments = [value for limit in ordered for value in (limit.count, limit.window_s * 1000)]
        wait_ms = self.home.run("take_rate", [self.home.keys.rate(caller)], [secrets.token_hex(8), *arguments])
        return int(wait_ms) / 1000

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


def connect(
    url: str,
    *,
    prefix: str = "dalston",
    cluster: bool = False,
    shards: str = "",
    timeout_s: float = SOCKET_TIMEOUT_S,
    before_each: Callable[[], None] | None = None,
) -> Broker:
    """Make a Broker. url: redis://, rediss:// (TLS), unix://, redis+sentinel://host:port,host:port/service/db, with
    user and password for ACL. cluster: the url names any node of a Redis Cluster. shards: `DALSTON_REDIS_URLS`,
    comma or newline separated "queue/priority=url" with * as wildcard, first match wins, the url itself serves the
    rest. timeout_s: how long a server may take to answer. before_each: for a web process, called before
    each call that may wait; such a broker has a circuit breaker per shard. Connects lazily."""
    return Broker(routes(url, Keys(prefix, cluster), shards, timeout_s, before_each))
