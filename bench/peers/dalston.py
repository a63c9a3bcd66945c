"""Dalston's bare broker: each settle checks session, owner and attempt and writes started and completed events. One
thread, which runs what it claimed in turn and settles all of it with the next claim.

The same public API as the engine SDK uses: exchange, and claim_next when nothing came.
"""

import itertools
import uuid
from collections.abc import Callable

from bench.peers import probe
from dalston_queue.broker import Consumer, connect
from dalston_queue.broker.protocol.messages import Completed, TaskMessage

QUEUE = "bench"
ENGINE = "bench.noop.0.1"
NO_LIMIT = 100_000_000
"""Nobody reads the events here; in production an engine stops claiming when they pile up."""


def message(sent_ns: int, queue: str = QUEUE) -> TaskMessage:
    task_id = str(uuid.uuid4())
    return TaskMessage(
        task_id=task_id, job_id=task_id, queue=queue, task_type="noop", attempt=1, parameters={"sent_ns": sent_ns}
    )


def sender(url: str) -> Callable[[int], None]:
    broker = connect(url)

    def send(sent_ns: int) -> None:
        broker.append([message(sent_ns)])

    return send


def fill(url: str, count: int) -> None:
    broker = connect(url)
    numbers = iter(range(count))
    while batch := list(itertools.islice(numbers, 1000)):
        broker.append([message(0) for _ in batch])


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    broker = connect(url)
    if recovery_s is not None:
        # as the supervisor does when waitpid tells it of a child's death
        broker.reclaim(ENGINE, [QUEUE], max_deliveries=3, max_losses=10)
    run(Consumer(broker, ENGINE, [QUEUE], capacity=capacity, max_backlog=NO_LIMIT))


def run(consumer: Consumer) -> None:
    consumer.open()
    done = Completed()
    claimed = consumer.exchange().claimed
    while True:
        for task in claimed:
            probe.ran(task.message.parameters["sent_ns"])
        settled = [(task, done) for task in claimed]
        claimed = consumer.exchange(settled).claimed
        while not claimed:
            woken = consumer.claim_next(1.0)
            claimed = consumer.exchange().claimed if woken is None else woken
