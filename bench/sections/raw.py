"""What redis-py gets from the server: a loop of PING that sleeps for each answer, and pipelined XADD."""

import time
from typing import Any

import redis

from bench.harness.servers import BenchServer


def ping_loop(server: BenchServer, seconds: float) -> float:
    client = redis.Redis.from_url(server.url)
    client.ping()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        client.ping()
        count += 1
    return count / (time.perf_counter() - start)


def pipelined_xadd(server: BenchServer, seconds: float) -> float:
    client = redis.Redis.from_url(server.url)
    payload: Any = {"m": b"x" * 200}
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        pipe = client.pipeline(transaction=False)
        for _ in range(500):
            pipe.xadd("bench:raw", payload)
        pipe.execute()
        count += 500
    return count / (time.perf_counter() - start)
