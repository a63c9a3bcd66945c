"""What a waiting task costs in Redis, and whether everything it cost comes back."""

import uuid

from bench.harness.figures import Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, QUEUE
from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.messages import Completed, TaskMessage

PAYLOAD = "x" * 190
"""With its JSON around it, 200 bytes."""


def memory(server: BenchServer, *, tasks: int) -> Section:
    server.flush()
    broker = connect(server.url)
    _cycle(broker, 100)  # makes what stays: the lanes, the groups, the cached scripts
    start, start_keys = server.used_memory(), _keys(server)

    _append(broker, tasks)
    each = (server.used_memory() - start) / tasks
    _drain(broker)
    residue = server.used_memory() - start
    left = _keys(server) - start_keys
    broker.close()
    server.flush()

    return Section(
        f"Redis memory, {tasks:,} tasks with a 200 byte payload",
        ["", "bytes per waiting task", "bytes left after all is acknowledged", "keys left"],
        [["dalston", f"{each:.0f}", f"{residue:,}", str(len(left))]],
        [
            Target(f"{each:.0f} bytes per waiting task (target under 700)", each < 700),
            Target(f"memory and keys return: {residue:,} bytes, {len(left)} keys left", residue < 200_000 and not left),
        ],
        [f"left: {', '.join(sorted(left))}"] if left else [],
    )


def _append(broker: Broker, tasks: int) -> None:
    for begin in range(0, tasks, 1000):
        messages = []
        for _ in range(min(1000, tasks - begin)):
            task_id = str(uuid.uuid4())
            parameters = {"text": PAYLOAD}
            messages.append(
                TaskMessage(
                    task_id=task_id, job_id=task_id, queue=QUEUE, task_type="noop", attempt=1, parameters=parameters
                )
            )
        broker.append(messages)


def _drain(broker: Broker) -> None:
    """An engine and an orchestrator, to the last event."""
    consumer = Consumer(broker, "bench.drain.0.1", [QUEUE], capacity=100, max_backlog=NO_LIMIT)
    consumer.open()
    reader = EventReader(broker, "bench")
    claimed = consumer.exchange().claimed
    while claimed:
        claimed = consumer.exchange([(task, Completed()) for task in claimed]).claimed
        reader.ack(reader.read(count=1000, block_ms=1))
    consumer.close()
    while events := reader.read(count=1000, block_ms=50):
        reader.ack(events)
    reader.close()


def _cycle(broker: Broker, tasks: int) -> None:
    _append(broker, tasks)
    _drain(broker)


def _keys(server: BenchServer) -> set[str]:
    return {key.decode() for key in server.client.scan_iter(count=10_000)}
