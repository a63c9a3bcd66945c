"""Drain: no new claim, tasks that fit the grace finish, the rest is released uncounted."""

import signal

from dalston_queue.broker.protocol.types import EventKind
from tests.supervisor.node import Node


def test_a_task_that_fits_the_grace_finishes_and_the_other_is_released(node: Node) -> None:
    node.engine(capacity=2, stop_grace=4)
    node.start()
    node.ready()
    short = node.submit("slow", seconds=1.2)
    long = node.submit("slow", seconds=30)
    node.started(short)
    node.started(long)
    assert node.process is not None
    node.process.send(signal.SIGTERM)
    waiting = node.submit("ready")
    assert node.process.wait() == 0
    assert node.result(short)
    released = node.wait_event(long, EventKind.TASK_RELEASED)
    assert released.deliveries == 0
    assert node.events(waiting) == []
    assert node.broker.snapshot().queues[0].waiting == 2
