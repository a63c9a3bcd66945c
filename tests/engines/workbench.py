"""A runner in a thread of the test, on a real Redis, and the events that it causes."""

import threading
import time
import uuid
from pathlib import Path
from typing import Any

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.engine.breaker import BreakerRules
from dalston_queue.broker.engine.stale import DEFAULT_RULES, StaleRules
from dalston_queue.broker.protocol.messages import Event, TaskMessage
from dalston_queue.broker.protocol.types import EventKind
from engines.sdk import Engine, Manifest, Task
from engines.sdk.process.identity import Identity
from engines.sdk.process.runner import Runner, Stop
from tests.support import WAIT_TIMEOUT_S, wait_until

QUEUE = "work"


class Sleeper(Engine):
    def run(self, task: Task) -> Any:
        ends = time.monotonic() + task.parameters.get("seconds", 0)
        while time.monotonic() < ends:
            task.progress(0.5, "asleep")
            task.wait(0.02)
            task.check()
        if task.parameters.get("fail"):
            raise ValueError("as asked")
        return {"n": task.parameters.get("n")}


class Bench:
    """A runner in a thread, and the events it causes."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.reader = EventReader(broker, "test")
        self.seen: list[Event] = []
        self.runners: list[tuple[Runner, threading.Thread]] = []

    def make(
        self,
        engine: Engine | None = None,
        stale: StaleRules = DEFAULT_RULES,
        *,
        store: bool = True,
        max_result_bytes: int = 1000,
        **fields: Any,
    ) -> Runner:
        manifest = Manifest(id="t", stage=QUEUE, command=("x",), **{"stop_grace": 5.0, **fields})
        identity = Identity(
            engine_id=f"node.t.{len(self.runners)}.{uuid.uuid4().hex}",
            node_id="node",
            redis_url="",
            prefix="",
            cluster=False,
            shards="",
            supervised=True,
            supervisor_pid=None,
            heartbeat_s=5,
            artifacts_url=(self.folder / "artifacts").as_uri() if store else "",
            scratch=str(self.folder / "scratch"),
            max_result_bytes=max_result_bytes,
            breaker_rules=BreakerRules(),
            stale=stale,
        )
        return Runner(engine or Sleeper(), manifest, self.broker, identity)

    def start(self, engine: Engine | None = None, stale: StaleRules = DEFAULT_RULES, **fields: Any) -> Runner:
        return self.run(self.make(engine, stale, **fields))

    def run(self, runner: Runner) -> Runner:
        thread = threading.Thread(target=runner.run, daemon=True)
        thread.start()
        self.runners.append((runner, thread))
        return runner

    def submit(self, **parameters: Any) -> str:
        return self.submit_many([parameters])[0]

    def submit_many(self, parameters: list[dict[str, Any]], timeout_ms: int = 0) -> list[str]:
        """timeout_ms: for tasks without one among their parameters."""
        ids = [str(uuid.uuid4()) for _ in parameters]
        self.broker.append(
            [
                TaskMessage(
                    task_id=task_id,
                    job_id=task_id,
                    queue=QUEUE,
                    task_type=QUEUE,
                    attempt=1,
                    parameters=each,
                    timeout_ms=each.get("timeout_ms", timeout_ms),
                )
                for task_id, each in zip(ids, parameters, strict=True)
            ]
        )
        return ids

    def events(self, kind: EventKind, task_id: str = "") -> list[Event]:
        batch = [event for event in self.reader.read(count=500, block_ms=1) if isinstance(event, Event)]
        self.reader.ack(batch)
        self.seen += batch
        return [event for event in self.seen if event.kind is kind and event.task_id in (task_id or event.task_id)]

    def wait(self, kind: EventKind, task_id: str) -> Event:
        return wait_until(lambda: self.events(kind, task_id), what=f"{kind} of {task_id}")[0]

    def stop(self, *, hurry: bool = False) -> None:
        for runner, thread in self.runners:
            runner.inbox.put(Stop())
            if hurry:
                runner.inbox.put(Stop())
            thread.join(WAIT_TIMEOUT_S)
            assert not thread.is_alive()


def counted_calls(runner: Runner) -> list[int]:
    """The number of results in each exchange, from now on."""
    calls: list[int] = []
    exchange = runner.consumer.exchange

    def counted(settlements: Any = (), free: int | None = None) -> Any:
        calls.append(len(settlements))
        return exchange(settlements, free)

    runner.consumer.exchange = counted  # type: ignore[method-assign]
    return calls
