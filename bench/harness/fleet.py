"""Real supervisors on the private server, with engines made for the run, and the events of their tasks."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from bench.harness.processes import ROOT
from bench.peers.dalston import message
from dalston_queue.broker import Broker, EventReader, connect
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.types import EngineState, EventKind

DEMO = ROOT / "engines" / "demo" / "engine.py"
LIGHT_ENGINE = ["python", "-S", "-E", str(ROOT / "bench" / "harness" / "light_engine.py")]
T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], seconds: float, what: str) -> T:
    """Polls the condition until it is true, and returns its value."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.005)
    return found


class Fleet:
    """Nodes on one key prefix, and the events of their tasks."""

    def __init__(self, redis_url: str) -> None:
        self.redis_url = redis_url
        self.prefix = f"bench-{secrets.token_hex(4)}"
        self.broker: Broker = connect(redis_url, prefix=self.prefix)
        self.reader = EventReader(self.broker, "bench")
        self.seen: list[tuple[float, Event]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="dalston-bench-"))
        self.nodes: list[Node] = []

    def node(self, name: str, **config: Any) -> "Node":
        self.nodes.append(Node(self, name, config))
        return self.nodes[-1]

    def submit(self, queue: str, **parameters: Any) -> str:
        task = message(0, queue, **parameters)
        self.broker.append([task])
        return task.task_id

    def events(self, task_id: str, kind: EventKind) -> list[tuple[float, Event]]:
        """With the time at which they were read."""
        batch = [event for event in self.reader.read(count=500, block_ms=5) if isinstance(event, Event)]
        self.reader.ack(batch)
        now = time.monotonic()
        self.seen += [(now, event) for event in batch]
        return [(at, event) for at, event in self.seen if event.task_id == task_id and event.kind is kind]

    def started(self, task_id: str, times: int = 1) -> tuple[float, Event]:
        def found() -> list[tuple[float, Event]]:
            starts = self.events(task_id, EventKind.TASK_STARTED)
            return starts if len(starts) >= times else []

        return wait_for(found, 40, f"start {times} of {task_id}")[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    def __init__(self, fleet: Fleet, name: str, config: dict[str, Any]) -> None:
        self.fleet = fleet
        self.name = name
        self.folder = fleet.folder / name
        self.config = {"node": name, "engines": ["engines"], "replicas": {}, **config}
        self.process: subprocess.Popen[bytes] | None = None

    def engine(self, name: str, command: list[str], *, replicas: int = 1, **fields: Any) -> None:
        folder = self.folder / "engines" / name
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {"id": name, "stage": name, "command": command, "stop_grace": 2, **fields}
        (folder / "engine.yaml").write_text(yaml.safe_dump(manifest))
        self.config["replicas"][name] = replicas

    def sleepers(self, replicas: int, **fields: Any) -> None:
        """The demo engine on the queue `sleep`."""
        self.engine("sleep", ["python", str(DEMO)], replicas=replicas, breaker=False, **fields)

    def start(self) -> None:
        file = self.folder / "node.yaml"
        file.write_text(yaml.safe_dump(self.config))
        env = {**os.environ, "DALSTON_DEV": "1", "REDIS_URL": self.fleet.redis_url}
        env |= {"DALSTON_REDIS_PREFIX": self.fleet.prefix}
        env.pop("DATABASE_URL", None)
        options = ["--config", str(file), "--state-dir", str(self.folder / "s")]
        argv = [sys.executable, "manage.py", "runsupervisor", *options]
        with (self.folder / "supervisor.log").open("wb") as log:
            self.process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=log, stderr=log)

    def engines(self, state: EngineState | None = None) -> list[EngineInfo]:
        found = [engine for engine in self.fleet.broker.registry.engines() if engine.node_id == self.name]
        return [engine for engine in found if state is None or engine.state is state]

    def ready(self, count: int) -> list[EngineInfo]:
        def found() -> list[EngineInfo]:
            ready = self.engines(EngineState.READY)
            return ready if len(ready) == count else []

        return wait_for(found, 120, f"{count} ready engines on {self.name}")

    def pid_of(self, engine_id: str) -> int:
        return next(int(engine.info["pid"]) for engine in self.engines() if engine.engine_id == engine_id)

    def kill(self) -> None:
        """Kills the supervisor and all engines at once, as a power cut does."""
        if self.process is None or self.process.poll() is not None:
            return
        pids = [int(engine.info["pid"]) for engine in self.engines() if engine.info.get("pid")]
        for pid in (self.process.pid, *pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
