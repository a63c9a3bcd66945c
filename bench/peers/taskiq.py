"""taskiq: RedisStreamBroker from id 0, uvloop, xread_count 100, prefetch 100 (none, its default, is no faster), no
result backend, no validation.
"""

import asyncio
import logging
from collections.abc import Callable

import uvloop
from taskiq import AsyncTaskiqTask
from taskiq.api import run_receiver_task
from taskiq.decor import AsyncTaskiqDecoratedTask
from taskiq_redis import RedisStreamBroker

from bench.peers import probe


def _broker(
    url: str, recovery_s: int | None = None
) -> "tuple[RedisStreamBroker, AsyncTaskiqDecoratedTask[[int], None]]":
    idle_ms = 600_000 if recovery_s is None else recovery_s * 1000
    broker = RedisStreamBroker(
        url, queue_name="bench", consumer_id="0", idle_timeout=idle_ms, unacknowledged_lock_timeout=10
    )

    @broker.task(task_name="noop")  # type: ignore[untyped-decorator]
    async def noop(sent_ns: int) -> None:
        probe.ran(sent_ns)

    return broker, noop


def sender(url: str) -> Callable[[int], object]:
    loop = uvloop.new_event_loop()
    broker, noop = _broker(url)
    loop.run_until_complete(broker.startup())

    async def kick(sent_ns: int) -> "AsyncTaskiqTask[None]":
        return await noop.kiq(sent_ns)

    def send(sent_ns: int) -> None:
        loop.run_until_complete(kick(sent_ns))

    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    logging.disable(logging.WARNING)
    broker, _ = _broker(url, recovery_s)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(
        run_receiver_task(broker, max_async_tasks=capacity, max_prefetch=100, validate_params=False, run_startup=True)
    )
