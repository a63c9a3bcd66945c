"""RQ: SimpleWorker (the default one forks per job), results kept as by default (dropping them is slower), Retry(3).
One process runs one job at a time.
"""

from collections.abc import Callable

import redis
from rq import Queue, Retry, SimpleWorker

from bench.peers import probe


def noop(sent_ns: int) -> None:
    probe.ran(sent_ns)


def sender(url: str) -> Callable[[int], object]:
    queue = Queue("bench", connection=redis.Redis.from_url(url))
    # From `python -m bench.peers` this module keeps its name, so the worker finds `bench.peers.rq.noop`.
    return lambda sent_ns: queue.enqueue(noop, sent_ns, result_ttl=500, retry=Retry(max=3))


def fill(url: str, count: int) -> None:
    queue = Queue("bench", connection=redis.Redis.from_url(url))
    for start in range(0, count, 500):
        queue.enqueue_many(
            [
                Queue.prepare_data(noop, (0,), result_ttl=500, retry=Retry(max=3))
                for _ in range(start, min(start + 500, count))
            ]
        )


def work(url: str, capacity: int, recovery_s: int | None) -> None:  # noqa: ARG001 - always 1
    queue = Queue("bench", connection=redis.Redis.from_url(url))
    windows = {} if recovery_s is None else {"maintenance_interval": 1, "job_monitoring_interval": recovery_s}
    worker = SimpleWorker([queue], connection=queue.connection, **windows)
    worker.work(logging_level="ERROR")
