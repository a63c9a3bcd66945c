"""Real orchestrator processes for tests, and an engine that works in a thread of the test."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import BrokerError, Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Outcome
from dalston_queue.broker.protocol.types import EngineState
from tests.orchestrator.support import echo
from tests.support import Spawned

Spawn = Callable[..., Spawned]

# Timeouts that take minutes by default, short enough for tests that wait for them.
FAST = {
    "DALSTON_HEARTBEAT_S": "0.2",
    "DALSTON_DEAD_AFTER_S": "1.5",
    "DALSTON_RECOVERY_INTERVAL_S": "0.5",
    "DALSTON_LEADER_TTL_S": "3",
    "DALSTON_BACKOFF_BASE_S": "0.1",
    "DALSTON_BACKOFF_CAP_HIGH_S": "0.5",
    "DALSTON_BACKOFF_CAP_MEDIUM_S": "0.5",
    "DALSTON_BACKOFF_CAP_LOW_S": "0.5",
}


class Orchestrators:
    """Starts orchestrators on the test's database and prefix."""

    def __init__(self, spawn: Spawn, env: Mapping[str, str], database_url: str) -> None:
        self._spawn = spawn
        self._env = {**env, **FAST, "DATABASE_URL": database_url}

    def start(self, *options: str, ready: bool = True, **variables: str) -> Spawned:
        process = self.command("runorchestrator", *options, **variables)
        if ready:
            process.wait_for("orchestrator ready")
        return process

    def command(self, *argv: str, **variables: str) -> Spawned:
        """Another command of manage.py, on the same database and prefix."""
        return self._spawn("manage.py", *argv, env={**self._env, **variables})


@contextmanager
def working_engine(
    broker: Broker, *queues: str, name: str = "lone.demo.0.boot", answer: Callable[[Delivery], Outcome] = echo
) -> Iterator[None]:
    """An engine that runs alone: claims, settles and beats in a thread until the block ends."""
    stop = threading.Event()
    consumer = Consumer(broker, name, queues or ("echo",), capacity=8)
    beat = EngineBeat(engine_id=name, state=EngineState.READY, queues=queues or ("echo",))

    def run() -> None:
        opened, next_beat = False, 0.0
        settlements: list[Any] = []
        while not stop.is_set():
            try:
                if not opened:
                    consumer.open()
                    opened = True
                if time.monotonic() >= next_beat:
                    broker.registry.beat_engine(beat)
                    next_beat = time.monotonic() + 0.2
                claimed = consumer.exchange(settlements).claimed
                settlements = [(task, answer(task)) for task in claimed]
                if not claimed:
                    consumer.wait(0.1)
            except Fenced:
                opened, settlements = False, []
            except BrokerError:
                stop.wait(0.1)
        consumer.exchange(settlements, free=0)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        consumer.close()
        broker.registry.forget([name])
