"""streaq: uvloop, prefetch as by default (as many as run at a time), silent tasks, no results kept."""

import logging
from collections.abc import Callable
from typing import Any

import uvloop
from streaq import Worker

from bench.peers import probe


def _worker(url: str, capacity: int = 1, recovery_s: int | None = None) -> "tuple[Worker[None], Any]":
    worker = Worker(
        redis_url=url,
        concurrency=capacity,
        idle_timeout=60 if recovery_s is None else recovery_s,
        anyio_kwargs={"use_uvloop": True},
    )

    @worker.task(name="noop", silent=True, ttl=0)  # type: ignore[untyped-decorator]
    async def noop(sent_ns: int) -> None:
        probe.ran(sent_ns)

    return worker, noop


def sender(url: str) -> Callable[[int], object]:
    loop = uvloop.new_event_loop()
    worker, noop = _worker(url)
    loop.run_until_complete(worker.__aenter__())

    async def enqueue(sent_ns: int) -> None:
        await noop.enqueue(sent_ns)

    def send(sent_ns: int) -> None:
        loop.run_until_complete(enqueue(sent_ns))

    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    logging.disable(logging.WARNING)
    _worker(url, capacity, recovery_s)[0].run_sync()
