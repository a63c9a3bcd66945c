"""Timed refills: an engine runs what each of them brings. Needs Django to be set up."""

import time
from dataclasses import dataclass, field
from typing import Any, Self

import psutil
from django.db import connection
from django.utils import timezone

from bench.harness.ready_tasks import add_ready
from dalston_queue.broker import Consumer, EventReader
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.order.window import STARTS
from dalston_queue.orchestrator.batch import handle
from dalston_queue.redis import get_broker

WINDOW = 32
COMPACT_EVERY = 20  # refills: about once a second


@dataclass
class Timed:
    took: list[float] = field(default_factory=list)  # milliseconds
    cpu_ms: float = 0.0  # of a refill, of this process and its Postgres backend


class Refills:
    def __enter__(self) -> Self:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._backend = psutil.Process(cursor.fetchone()[0])
        self._broker = get_broker()
        self._reader = EventReader(self._broker, "bench")
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def run(self, lane: Any, count: int) -> Timed:
        """So many refills of 32. A lane that is empty gets as many tasks again."""
        consumer = Consumer(self._broker, f"lone.{lane.queue}.0.boot", [lane.queue], capacity=4 * WINDOW)
        consumer.open()
        self._finish(lane, consumer)  # what is in the window
        timed = Timed()
        for number in range(count):
            if number % COMPACT_EVERY == 0:
                depth.compact()
            ready = sum(found.ready for found in depth.depths([lane.queue]))
            if ready < WINDOW:
                add_ready(WINDOW - ready, lane.projects, queue=lane.queue)
            begun, before = time.perf_counter(), self._cpu_seconds()
            queued = refill([lane.queue], timezone.now(), {(lane.queue, "medium"): WINDOW // STARTS})
            timed.took.append((time.perf_counter() - begun) * 1000)
            timed.cpu_ms += (self._cpu_seconds() - before) * 1000 / count
            assert queued == WINDOW, f"{queued} were queued"
            self._finish(lane, consumer)
        consumer.close()
        return timed

    def _cpu_seconds(self) -> float:
        times = self._backend.cpu_times()
        return time.process_time() + times.user + times.system

    def _finish(self, lane: Any, consumer: Consumer) -> None:
        """The engine runs what is in the window, and its events are applied."""
        claimed = consumer.claim()
        consumer.exchange([(task, Completed({})) for task in claimed], free=0)
        while any(found.queued + found.running for found in depth.depths([lane.queue])):
            batch = self._reader.read(count=1000, block_ms=50)  # finds the events of a new queue within a second
            handle(batch, timezone.now())
            self._reader.ack(batch)
