"""Attacks through Redis: a node's user that tries what it may not, and another program that writes to our keys."""

import itertools

import redis

from bench.attacks import Target, done

REFUSED = [
    ("FLUSHALL",), ("FLUSHDB",), ("CONFIG", "GET", "requirepass"), ("KEYS", "*"), ("SCAN", "0", "COUNT", "1000000"),
    ("DEBUG", "SLEEP", "1"), ("CLIENT", "PAUSE", "1000"), ("SHUTDOWN",), ("SCRIPT", "FLUSH"), ("MONITOR",), ("SAVE",),
    ("EVAL", "redis.call('flushall')", "0"), ("SET", "dalston:marker", "x"), ("DEL", "dalston:events:_jobs"),
]  # fmt: skip


def node_user(target: Target) -> None:
    """The user that docs/redis-keys.md gives a node tries to delete, read or stop everything."""
    client = redis.Redis.from_url(target.node_url)
    for command in itertools.cycle(REFUSED):
        try:
            client.execute_command(*command)
        except redis.ResponseError:
            done["refused"] += 1
        else:
            raise SystemExit(f"a node's user may {' '.join(command)}")


def foreign_writes(target: Target) -> None:
    """HTML as ids, numbers of 400 digits, and reports of nodes that do not exist."""
    client, names = redis.Redis.from_url(target.redis_url), ["<img src=x onerror=alert(1)>", "a b", "../..", "x" * 300]
    for number in itertools.count():
        name = f"{names[number % len(names)]}{number % 100}"
        client.sadd(f"{target.prefix}:nodes", name)
        client.sadd(f"{target.prefix}:engines", name)
        client.hset(f"{target.prefix}:node:{name}", mapping={"beat": "9" * 400, "at": "9" * 400, "state": "active"})
        client.hset(f"{target.prefix}:counters:echo", "completed", "9" * 400)
        client.hset(
            f"{target.prefix}:engine:e{number % 100}", mapping={"report": '{"state": "ready", "capacity": 1e308}'}
        )
        done["written"] += 1
