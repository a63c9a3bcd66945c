"""Health of the servers: whether they answer, and whether their configuration can lose our work."""

from __future__ import annotations

import time

from dalston_queue.broker.connection.shard import Call, Shard
from dalston_queue.broker.connection.topology import Topology


def ping(topology: Topology) -> float:
    """Round trip to every shard, the slowest in seconds; raises Unavailable naming the shard."""
    return max(_round_trip(shard) for shard in topology.shards)


def check(topology: Topology) -> list[str]:
    """What is wrong with the servers' configuration, one sentence each: eviction policy, version, role, memory,
    persistence."""
    return [finding for shard in topology.shards for finding in _check(shard)]


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
