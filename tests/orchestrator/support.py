"""Helpers of the orchestrator's tests: engines that answer at once, and an orchestrator driven step by step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer, Delivery, EventReader
from dalston_queue.broker.protocol.messages import Completed, Event, Malformed, Outcome
from dalston_queue.orchestrator.batch import handle
from dalston_queue.orchestrator.loop import follow_up, poll


@contextmanager
def engine(broker: Broker, *queues: str, name: str = "node.demo.0.boot", capacity: int = 8) -> Iterator[Consumer]:
    """An engine's consumer, opened and closed."""
    consumer = Consumer(broker, name, queues or ("echo",), capacity=capacity)
    consumer.open()
    try:
        yield consumer
    finally:
        consumer.close()


def echo(claimed: Delivery) -> Outcome:
    return Completed({"parameters": claimed.message.parameters, "inputs": claimed.message.inputs})


class Steps:
    """One orchestrator, a step at a time, in this process."""

    def __init__(self, broker: Broker, name: str = "step") -> None:
        self.reader = EventReader(broker, name)

    def poll(self) -> None:
        while poll():
            pass

    def events(self) -> list[Event | Malformed]:
        self.reader._refreshed = 0.0  # find new queues now: a running reader does it once a second
        return self.reader.read(count=1000, block_ms=0)

    def drain(self) -> int:
        """Handle events until there are none; returns how many there were."""
        total = 0
        while batch := self.events():
            total += len(batch)
            advanced = handle(batch, timezone.now())
            self.reader.ack(batch)
            follow_up(advanced)
        return total


def work(consumer: Consumer, answer: Callable[[Delivery], Outcome] = echo) -> list[Any]:
    """Let an engine claim tasks and settle them at once; returns their messages."""
    claimed = consumer.claim()
    consumer.exchange([(task, answer(task)) for task in claimed], free=0)
    return [task.message for task in claimed]


def run_to_the_end(steps: Steps, consumer: Consumer, answer: Callable[[Delivery], Outcome] = echo) -> int:
    """Poll, work and apply events until nothing moves; returns the number of deliveries."""
    ran = 0
    while True:
        steps.poll()
        got = work(consumer, answer)
        if not got and not steps.drain():
            return ran
        ran += len(got)


def a_lock_is_awaited() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])
