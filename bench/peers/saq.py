"""SAQ: uvloop, retries 3, task timeout 5 s, no results kept, timers as by default."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import uvloop
from saq import Queue, Worker

from bench.peers import probe


async def noop(_context: Any, *, sent_ns: int) -> None:
    probe.ran(sent_ns)


def sender(url: str) -> Callable[[int], object]:
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    queue = Queue.from_url(url, name="bench")

    def send(sent_ns: int) -> None:
        loop.run_until_complete(queue.enqueue("noop", sent_ns=sent_ns, retries=3, ttl=-1, timeout=5))

    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    logging.disable(logging.WARNING)

    async def main() -> None:
        queue = Queue.from_url(url, name="bench")
        timers: Any = None if recovery_s is None else {"sweep": recovery_s}
        await Worker(queue, [("noop", noop)], concurrency=capacity, timers=timers).start()

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(main())
