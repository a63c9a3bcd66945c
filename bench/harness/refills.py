"""Timed refills: an engine runs what each of them brings. Needs Django to be set up."""

import time
from typing import Any, Self

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


class Refills:
    def __enter__(self) -> Self:
        self._broker = get_broker()
        self._reader = EventReader(self._broker, "bench")
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def run(self, lane: Any, count: int) -> list[float]:
        """Milliseconds of so many refills of 32. A lane that is empty gets as many tasks again."""
        consumer = Consumer(self._broker, f"lone.{lane.queue}.0.boot", [lane.queue], capacity=4 * WINDOW)
        consumer.open()
        self._finish(consumer)  # what is in the window
        took = []
        for number in range(count):
            if number % COMPACT_EVERY == 0:
                depth.compact()
            ready = sum(found.ready for found in depth.depths([lane.queue]))
            if ready < WINDOW:
                add_ready(WINDOW - ready, lane.projects, queue=lane.queue)
            begun = time.perf_counter()
            queued = refill([lane.queue], timezone.now(), {(lane.queue, "medium"): WINDOW // STARTS})
            took.append((time.perf_counter() - begun) * 1000)
            assert queued == WINDOW, f"{queued} were queued"
            self._finish(consumer)
        consumer.close()
        return took

    def _finish(self, consumer: Consumer) -> None:
        """The engine runs what is in the window, and its events are applied."""
        claimed = consumer.claim()
        consumer.exchange([(task, Completed({})) for task in claimed], free=0)
        while batch := self._reader.read(count=1000, block_ms=0):
            handle(batch, timezone.now())
            self._reader.ack(batch)
