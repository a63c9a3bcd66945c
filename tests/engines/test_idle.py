"""An idle engine starts a task as soon as it is appended, not with its next poll."""

import time
import uuid
from collections.abc import Callable
from statistics import median

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.messages import TaskMessage
from tests.support import Spawned, keeps_time, wait_until

QUEUES = ("echo", "sleep", "fail")


def test_an_idle_engine_starts_each_task_at_once(
    spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker
) -> None:
    """From the second task on, each finds an engine that just became idle: its waiter must be asleep at Redis."""
    engine = spawn("-m", "engines.sdk", "run", "engines/demo", env={**process_env, "DALSTON_NODE_ID": "test"})
    reader = EventReader(broker, "test")

    def once() -> float:
        message = TaskMessage(task_id=uuid.uuid4().hex, job_id="j", queue="echo", task_type="echo", attempt=1)
        begin = time.monotonic()
        broker.append([message])
        wait_until(lambda: _ended(reader), what=lambda: f"a task completed:\n{engine.output}")
        return time.monotonic() - begin

    once()
    keeps_time(0.3, lambda: median(once() for _ in range(5)))
    engine.stop()
    for queue in QUEUES:
        broker.reset_queue(queue)


def _ended(reader: EventReader) -> bool:
    events = reader.read(block_ms=100)
    reader.ack(events)
    return any(getattr(event, "kind", "") == "task.completed" for event in events)
