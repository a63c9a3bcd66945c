"""huey: RedisHuey, worker threads, blocking pop, no results stored, no periodic tasks."""

import logging
from collections.abc import Callable

from huey import RedisHuey
from huey.api import TaskWrapper

from bench.peers import probe


def _huey(url: str) -> tuple[RedisHuey, TaskWrapper]:
    huey = RedisHuey("bench", url=url, results=False, blocking=True)

    @huey.task(name="noop")  # type: ignore[untyped-decorator]
    def noop(sent_ns: int) -> None:
        probe.ran(sent_ns)

    return huey, noop


def sender(url: str) -> Callable[[int], object]:
    send: Callable[[int], None]
    _, send = _huey(url)
    return send


def work(url: str, capacity: int, recovery_s: int | None) -> None:  # noqa: ARG001 - it has no recovery
    logging.disable(logging.WARNING)
    huey, _ = _huey(url)
    huey.create_consumer(workers=capacity, periodic=False, worker_type="thread", check_worker_health=False).run()
