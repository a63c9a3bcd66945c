"""arq: uvloop, poll_delay 10 ms (its default of 0.5 s would be its latency), queue_read_limit 500, no results kept."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import uvloop
from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.worker import Worker, func

from bench.peers import probe


async def noop(_context: dict[str, Any], sent_ns: int) -> None:
    probe.ran(sent_ns)


async def _pool(url: str) -> ArqRedis:
    return await create_pool(RedisSettings.from_dsn(url))


def sender(url: str) -> Callable[[int], object]:
    loop = uvloop.new_event_loop()
    pool = loop.run_until_complete(_pool(url))

    def send(sent_ns: int) -> None:
        loop.run_until_complete(pool.enqueue_job("noop", sent_ns))

    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    logging.disable(logging.WARNING)
    asyncio.set_event_loop(uvloop.new_event_loop())
    Worker(
        functions=[func(noop, name="noop")],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=capacity,
        poll_delay=0.01,
        queue_read_limit=500,
        keep_result=0,
        job_timeout=300 if recovery_s is None else recovery_s,
        log_results=False,
    ).run()
