"""Dramatiq: Retries as the only middleware, as many threads as tasks at a time. By default it holds two tasks per
thread, and its one thread then mostly waits for its reader; with prefetch 100 it never does.
"""

import logging
import os
import time
from collections.abc import Callable

from bench.peers import probe

if prefetch := os.environ.get("BENCH_PREFETCH"):
    os.environ["dramatiq_queue_prefetch"] = prefetch  # noqa: SIM112 - its name; read when dramatiq is imported

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker


def _broker(url: str, recovery_s: int | None = None) -> "tuple[RedisBroker, dramatiq.Actor[..., None]]":
    windows = {} if recovery_s is None else {"heartbeat_timeout": recovery_s * 1000, "maintenance_chance": 500_000}
    broker = RedisBroker(url=url, middleware=[dramatiq.middleware.Retries(max_retries=3)], **windows)
    dramatiq.set_broker(broker)

    @dramatiq.actor(broker=broker, queue_name="bench", actor_name="noop")  # type: ignore[untyped-decorator]
    def noop(sent_ns: int) -> None:
        probe.ran(sent_ns)

    return broker, noop


def sender(url: str) -> Callable[[int], object]:
    _, noop = _broker(url)
    send: Callable[[int], object] = noop.send
    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    logging.disable(logging.WARNING)
    broker, _ = _broker(url, recovery_s)
    Worker(broker, worker_threads=capacity, worker_timeout=100).start()
    while True:
        time.sleep(60)
