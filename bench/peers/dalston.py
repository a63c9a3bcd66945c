"""Dalston's bare broker: each settle checks session, owner and attempt and writes started and completed events. One
thread, which runs what it claimed in turn and settles all of it with the next claim; nothing is prefetched.

The same public API as the engine SDK uses: exchange, and claim when nothing came.
"""

import uuid
from collections.abc import Callable
from typing import Any

from bench.peers import probe
from dalston_queue.broker import Broker, Consumer, connect
from dalston_queue.broker.protocol.messages import Completed, TaskMessage

QUEUE = "bench"
ENGINE = "bench.noop.0.1"
NO_LIMIT = 100_000_000
"""Of unread events: no orchestrator reads them here. In production an engine stops claiming at its limit."""


def message(sent_ns: int, queue: str = QUEUE, **parameters: Any) -> TaskMessage:
    task_id = str(uuid.uuid4())
    parameters = parameters or {"sent_ns": sent_ns}
    return TaskMessage(task_id=task_id, job_id=task_id, queue=queue, task_type="noop", attempt=1, parameters=parameters)


def sender(url: str) -> Callable[[int], object]:
    broker = connect(url)

    def send(sent_ns: int) -> None:
        broker.append([message(sent_ns)])

    return send


def fill(url: str, count: int) -> None:
    append_many(connect(url), QUEUE, count)


def append_many(broker: Broker, queue: str, count: int, **parameters: Any) -> None:
    """In batches of 1 000."""
    for begin in range(0, count, 1000):
        broker.append([message(0, queue, **parameters) for _ in range(min(1000, count - begin))])


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    broker = connect(url)
    if recovery_s is not None:
        # as the supervisor does when waitpid reports the death of its child
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
            claimed = consumer.claim(timeout=1.0)
