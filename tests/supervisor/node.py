"""A real supervisor with the fixture engine, driven from a test."""

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.messages import Event, TaskMessage
from dalston_queue.broker.protocol.types import EngineState, EventKind
from tests.support import WAIT_TIMEOUT_S, Spawned, wait_until

FIXTURE = Path(__file__).resolve().parent / "fixture" / "engine.py"
QUEUE = "work"


def alive(pid: int) -> bool:
    """True for a process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


class Node:
    def __init__(self, broker: Broker, spawn: Callable[..., Spawned], env: Mapping[str, str], folder: Path, name: str):
        self.broker = broker
        self.spawn = spawn
        self.env = dict(env)
        self.folder = folder / name
        self.name = name
        self.engines_dir = self.folder / "engines"
        self.engines_dir.mkdir(parents=True)
        self.state_dir = self.folder / "state"
        self.config: dict[str, Any] = {"node": name, "engines": ["engines"]}
        self.process: Spawned | None = None
        self.seen: list[Event] = []
        self.reader = EventReader(broker, f"test-{name}")

    # --- set up -------------------------------------------------------------------------------------------------------

    def engine(self, name: str = "fix", *, replicas: int = 1, **fields: Any) -> None:
        """Writes (or changes) an engine.yaml."""
        folder = self.engines_dir / name
        folder.mkdir(exist_ok=True)
        manifest = {"id": name, "stage": QUEUE, "command": ["python", str(FIXTURE)], "stop_grace": 1, **fields}
        (folder / "engine.yaml").write_text(yaml.safe_dump(manifest))
        self.config.setdefault("replicas", {})[name] = replicas

    def start(self) -> Spawned:
        file = self.folder / "node.yaml"
        file.write_text(yaml.safe_dump(self.config))
        arguments = ["--config", str(file), "--state-dir", str(self.state_dir)]
        self.process = self.spawn("manage.py", "runsupervisor", *arguments, env=self.env)
        return self.process

    def ready(self, count: int = 1) -> list[EngineInfo]:
        return self.wait_state(EngineState.READY, count)

    # --- state --------------------------------------------------------------------------------------------------------

    def engines(self, name: str = "") -> list[EngineInfo]:
        wanted = f"{self.name}.{name}"
        return [engine for engine in self.broker.registry.engines() if engine.engine_id.startswith(wanted)]

    def wait_state(
        self, state: EngineState, count: int = 1, timeout: float = WAIT_TIMEOUT_S, name: str = ""
    ) -> list[EngineInfo]:
        def found() -> list[EngineInfo]:
            assert self.process is None or self.process.running(), self.process.output
            matching = [engine for engine in self.engines(name) if engine.state is state]
            return matching if len(matching) == count else []

        try:
            return wait_until(found, timeout, f"{count} engines {state}")
        except AssertionError as error:
            states = [(engine.engine_id, str(engine.state), engine.info) for engine in self.engines()]
            output = self.process.output if self.process else ""
            raise AssertionError(f"{error}\n{states}\n{output}\n{self.all_logs()}") from None

    def all_logs(self) -> str:
        return "\n".join(file.read_text(errors="replace") for file in sorted(self.state_dir.glob("logs/*.log")))

    # --- work ---------------------------------------------------------------------------------------------------------

    def submit(self, mode: str = "ready", *, queue: str = QUEUE, timeout_ms: int = 0, **parameters: Any) -> str:
        task_id = str(uuid.uuid4())
        message = TaskMessage(
            task_id=task_id,
            job_id=str(uuid.uuid4()),
            queue=queue,
            task_type=queue,
            attempt=1,
            parameters={"mode": mode, **parameters},
            timeout_ms=timeout_ms,
        )
        self.broker.append([message])
        return task_id

    def events(self, task_id: str = "", kind: EventKind | None = None) -> list[Event]:
        """All events so far; they are acknowledged, as by an orchestrator."""
        with contextlib.suppress(Unavailable):  # after an outage, once per connection
            batch = self.reader.read(count=500, block_ms=1)
            self.reader.ack([event for event in batch if isinstance(event, Event)])
            self.seen += [event for event in batch if isinstance(event, Event)]
        return [
            event
            for event in self.seen
            if (not task_id or event.task_id == task_id) and (kind is None or event.kind is kind)
        ]

    def wait_event(self, task_id: str, kind: EventKind, timeout: float = WAIT_TIMEOUT_S) -> Event:
        def found() -> list[Event]:
            return self.events(task_id, kind)

        try:
            return wait_until(found, timeout, f"{kind} of {task_id}")[-1]
        except AssertionError as error:
            kinds = [(str(event.kind), event.error) for event in self.events(task_id)]
            output = self.process.output if self.process else ""
            raise AssertionError(f"{error}\n{kinds}\n{output}\n{self.all_logs()}") from None

    def result(self, task_id: str, timeout: float = WAIT_TIMEOUT_S) -> Any:
        return self.wait_event(task_id, EventKind.TASK_COMPLETED, timeout).result

    def started(self, task_id: str, times: int = 1) -> Event:
        wait_until(lambda: len(self.events(task_id, EventKind.TASK_STARTED)) >= times, what=f"start of {task_id}")
        return self.events(task_id, EventKind.TASK_STARTED)[-1]

    def waiting_task(self) -> str:
        """A task that waits: an engine may claim one more before its signal to pause arrives."""

        def waits(task: str) -> bool:
            return self.broker.snapshot().queues[0].waiting == 1 or bool(self.events(task, EventKind.TASK_COMPLETED))

        def found() -> str:
            task = self.submit("ready")
            wait_until(lambda: waits(task), what="the task waits, or is done")
            return "" if self.events(task, EventKind.TASK_COMPLETED) else task

        return wait_until(found, what="a task that waits")

    def pid_of(self, engine_id: str) -> int:
        [engine] = [engine for engine in self.engines() if engine.engine_id == engine_id]
        return int(engine.info["pid"])

    def stop(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        if self.process and self.process.running():
            self.process.send(signal.SIGCONT)
            assert self.process.stop(timeout=timeout) == 0, self.process.output

    def clean(self) -> None:
        """Leaves no process and no key."""
        self.stop()
        self.events()
        for queue in self.broker.queues():
            self.broker.reset_queue(queue)
        self.broker.registry.forget([engine.engine_id for engine in self.broker.registry.engines()], [self.name])


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)
