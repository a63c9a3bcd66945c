"""The shards of a deployment: made from their URLs, which of them holds what, and whether they are healthy.

A shard is a whole broker. A task lives in exactly one, by its queue and priority (`DALSTON_REDIS_URLS`). Registry,
leases, commands and job hints live in the home shard. A URL names one server, a Sentinel set or a cluster.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from dalston_queue.broker.connection.shard import Call, Client, Shard
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.types import Priority

SOCKET_TIMEOUT_S = 5.0


class Route(msgspec.Struct, frozen=True):
    """Tasks whose queue and priority match these patterns live in this shard."""

    queue: str
    priority: str
    shard: Shard

    def matches(self, queue: str, priority: Priority) -> bool:
        return fnmatchcase(queue, self.queue) and fnmatchcase(priority, self.priority)


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

    def ping(self) -> float:
        """The round trip to the slowest shard, in seconds. Raises Unavailable, which names the shard."""
        return max(_round_trip(shard) for shard in self.shards)

    def data_lost(self) -> bool:
        """Whether a shard has no marker: it lost its data (a flush, an empty server that replaced it), or was never
        marked. One round trip per shard. In a cluster only the server that has the marker is seen."""
        return not all(shard.command("EXISTS", shard.keys.marker()) for shard in self.shards)

    def mark(self) -> None:
        """Set the markers that are absent: from now on the loss of a shard's data can be seen. Raises Denied when a
        server is out of memory."""
        for shard in self.shards:
            shard.command("SET", shard.keys.marker(), "1", "NX")

    def check(self) -> list[str]:
        """What can lose our work in the servers' configuration, one sentence each: eviction policy, version, role,
        memory, persistence."""
        return [finding for shard in self.shards for finding in _check(shard)]


def routes(
    url: str,
    keys: Keys,
    shards: str,
    timeout_s: float = SOCKET_TIMEOUT_S,
    before_each: Callable[[], None] | None = None,
) -> tuple[Route, ...]:
    """The routes, in order; the last one is the home shard's and matches everything."""

    def shard(index: int, url: str) -> Shard:
        return Shard(index, _safe(url), keys, _client_maker(url, keys.cluster, timeout_s), before_each)

    made: dict[str, Shard] = {url: shard(0, url)}
    mapped: list[Route] = []
    for item in re.split(r"[,\s]+(?=[^,\s]*/[^,\s=]*=)", shards.strip(", \n")):
        if not item:
            continue
        pattern, _, target = item.partition("=")
        queue, _, priority = pattern.strip().partition("/")
        target = target.strip()
        if not queue or not priority or "://" not in target:
            raise Invalid(
                f"DALSTON_REDIS_URLS: {_safe(item)!r} is not of the form queue/priority=url, e.g. */high=redis://host:6379/0"
            )
        if not any(fnmatchcase(name, priority) for name in Priority):
            raise Invalid(f"DALSTON_REDIS_URLS: no priority matches {priority!r}; use high, medium, low or *")
        if target not in made:
            made[target] = shard(len(made), target)
        mapped.append(Route(queue, priority, made[target]))
    return (*mapped, Route("*", "*", made[url]))


def _client_maker(url: str, cluster: bool, timeout_s: float) -> Callable[[], Client]:
    scheme = urlsplit(url).scheme
    options: dict[str, Any] = {
        # our callers decide whether to repeat a call whose reply is lost; redis-py must not
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "protocol": 2,
        # No CLIENT SETINFO: Redis 7.0 does not know it, and refuses an ACL that names it.
        "driver_info": None,
    }
    if scheme in ("redis+sentinel", "rediss+sentinel"):
        return lambda: _sentinel_client(url, options)
    if not url:
        raise Invalid("REDIS_URL is empty; set it to redis://[:password@]host:port/0")
    if scheme not in ("redis", "rediss", "unix"):
        raise Invalid(f"{_safe(url)!r}: use redis://, rediss://, unix:// or redis+sentinel://")
    if cluster:
        return lambda: RedisCluster.from_url(url, **options)
    return lambda: redis.Redis.from_url(url, **options)


def _sentinel_client(url: str, options: dict[str, Any]) -> redis.Redis:
    """redis+sentinel://[user:password@]host:port,host:port/service[/db][?sentinel_username=..&sentinel_password=..]"""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not hosts or not service:
        raise Invalid(
            f"{_safe(url)!r}: a Sentinel URL needs hosts and a service, redis+sentinel://host:26379,host2:26379/mymaster/0"
        )
    query = dict(parse_qsl(parts.query))
    sentinel_options = {**options}
    for name in ("username", "password"):
        if f"sentinel_{name}" in query:
            sentinel_options[name] = query.pop(f"sentinel_{name}")
    addresses = [(host.rpartition(":")[0] or host, int(host.rpartition(":")[2] or 26379)) for host in hosts.split(",")]
    sentinel = Sentinel(addresses, sentinel_kwargs=sentinel_options, **options)
    login = {"username": unquote(user) or None, "password": unquote(password) or None} if credentials else {}
    client: redis.Redis = sentinel.master_for(
        service, db=int(db or 0), ssl=parts.scheme == "rediss+sentinel", **login, **query, **options
    )
    return client


def _round_trip(shard: Shard) -> float:
    start = time.monotonic()
    shard.call(Call(shard.keys.stages(), ("PING",)))
    return time.monotonic() - start


def _check(shard: Shard) -> list[str]:
    facts: dict[str, str] = {}
    info: bytes = shard.call(Call(shard.keys.stages(), ("INFO", "server", "memory", "persistence", "replication")))
    for line in info.decode().splitlines():
        name, _, value = line.partition(":")
        facts[name] = value
    findings = []
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        findings.append(
            f"{shard.name} evicts keys (maxmemory-policy {policy}): set it to noeviction, or tasks will vanish"
        )
    version = facts.get("valkey_version") or facts.get("redis_version", "0")
    if int(version.split(".")[0]) < 7:
        findings.append(f"{shard.name} is version {version}: scripts with flags need Redis 7 or Valkey")
    if facts.get("role") not in (None, "master"):
        findings.append(f"{shard.name} is a replica: name the primary in the URL, or use redis+sentinel://")
    if facts.get("aof_enabled") == "0":
        findings.append(
            f"{shard.name} writes no append-only file: a restart loses the queue, and the reconciler must rebuild it"
        )
    limit, used = int(facts.get("maxmemory", 0)), int(facts.get("used_memory", 0))
    if limit and used > 0.9 * limit:
        findings.append(f"{shard.name} uses {used} of {limit} bytes: appends will be refused soon")
    return findings


def _safe(url: str) -> str:
    """Without credentials: these go into messages and logs."""
    return re.sub(r"//[^@/]*@", "//", url).partition("?")[0]
