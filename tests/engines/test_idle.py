"""An idle engine starts a task when it comes, not at its next look around."""

import time
from collections.abc import Callable

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.messages import TaskMessage
from tests.support import Spawned, wait_until

QUEUES = ("echo", "sleep", "fail")


def test_an_idle_engine_starts_each_task_at_once(
    spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker
) -> None:
    """From the second task on, each meets an engine that has just become idle: it must be asleep at Redis by then."""
    engine = spawn("-m", "engines.sdk", "run", "engines/demo", env={**process_env, "DALSTON_NODE_ID": "test"})
    reader = EventReader(broker, "test")
    waits = []
    for number in range(6):
        message = TaskMessage(task_id=f"t{number}", job_id="j", queue="echo", task_type="echo", attempt=1)
        begin = time.monotonic()
        broker.append([message])
        wait_until(lambda: _ended(reader), 10, f"task {number} completed:\n{engine.output}")
        waits.append(time.monotonic() - begin)
    engine.stop()
    for queue in QUEUES:
        broker.reset_queue(queue)
    assert sorted(waits[1:])[2] < 0.3, waits


def _ended(reader: EventReader) -> bool:
    events = reader.read(block_ms=100)
    reader.ack(events)
    return any(getattr(event, "kind", "") == "task.completed" for event in events)
