"""Fixtures: orchestrators and engines as real processes, recordings in, transcripts out."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dalston_queue.artifacts import Store, open_store
from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import Job, Task
from tests.jobs import make
from tests.orchestrator.conftest import no_hints, orchestrators
from tests.orchestrator.processes import FAST, Orchestrators
from tests.support import Spawned, wait_until
from tests.tools.recordings import moonshine_folder

__all__ = ["no_hints", "orchestrators"]

ENGINES = ("prepare", "transcribe", "align", "merge")
TIMEOUT_S = 120.0  # a recording takes seconds on a quiet machine


class Pipeline:
    def __init__(self, broker: Broker, store: Store, env: Mapping[str, str], spawn: Callable[..., Spawned]) -> None:
        self.broker, self.store, self.env, self._spawn = broker, store, dict(env), spawn
        self.engines: dict[str, Spawned] = {}

    def start(self, *names: str, **variables: str) -> None:
        """An engine process of each, which runs alone; returns when all are ready."""
        for name in names:
            self.engines[name] = self._spawn(f"engines/{name}/engine.py", env={**self.env, **variables})
        wait_until(
            lambda: set(names) <= self.ready(), TIMEOUT_S, lambda: "\n".join(self.engines[n].output for n in names)
        )

    def start_another(self, name: str) -> None:
        """A second process of an engine that runs."""
        self._spawn(f"engines/{name}/engine.py", env=self.env)
        wait_until(lambda: sum(name in beat.queues for beat in self._ready()) == 2, TIMEOUT_S, f"a second {name}")

    def _ready(self) -> list[EngineInfo]:
        return [beat for beat in self.broker.registry.engines() if beat.state is EngineState.READY]

    def ready(self) -> set[str]:
        alive = {name for name, process in self.engines.items() if process.running()}
        found = {queue for beat in self._ready() for queue in beat.queues}
        return {name for name in alive if name in found}

    def kill(self, name: str) -> None:
        self.engines[name].send(signal.SIGKILL)
        self.engines[name].wait()

    def claimed(self, name: str, job: Job) -> None:
        """Returns as soon as the engine has claimed a task of the job."""
        process = self.engines[name]

        def is_claimed() -> bool:
            return any("task_claimed" in row and str(job.id) in row for row in process.output.splitlines())

        wait_until(is_claimed, TIMEOUT_S, lambda: f"{name} claims a task of {job.id}:\n{process.output}")

    def submit(self, file: Path, **parameters: Any) -> Job:
        wanted = {"audio": self.store.put_path(file).ref, "filename": file.name, "model": "auto", **parameters}
        return make.job_of(StageSpec(stage="prepare", parameters=wanted))

    def wait(self, job: Job, *statuses: str) -> Job:
        wanted = statuses or ("completed",)

        def state() -> str:
            logs = "\n".join(f"--- {name}\n{it.output[-2000:]}" for name, it in self.engines.items())
            return f"{job.status}, {make.statuses(job)}\n{logs}"

        def over() -> bool:
            job.refresh_from_db()
            return job.status in wanted

        wait_until(over, TIMEOUT_S, state)
        return job

    def running(self, job: Job, stage: str) -> Task:
        """The task of this stage, once it runs."""
        found = Task.objects.filter(job=job, stage=stage, status="running")
        return wait_until(found.first, TIMEOUT_S, f"{stage} runs")

    def transcript(self, job: Job) -> dict[str, Any]:
        merged = Task.objects.get(job=job, stage="merge").result
        document: dict[str, Any] = msgspec.json.decode(self.store.read(merged["transcript"]))
        return document


@pytest.fixture
def pipeline_on(
    transactional_db: None,
    broker: Broker,
    orchestrators: Orchestrators,
    process_env: dict[str, str],
    spawn: Callable[..., Spawned],
    request: pytest.FixtureRequest,
) -> Callable[[str, Mapping[str, str]], Pipeline]:
    """pipeline_on(url of the artifact store, its variables), with an orchestrator. The test starts the engines."""
    moonshine_folder()
    request.node.add_marker(pytest.mark.keeps_keys)

    def make(url: str, variables: Mapping[str, str]) -> Pipeline:
        env = {**variables, "DALSTON_ARTIFACTS_URL": url}
        orchestrators.start(ready=True, **env)
        return Pipeline(broker, open_store(url), {**process_env, **FAST, **env}, spawn)

    return make


@pytest.fixture
def pipeline(pipeline_on: Callable[[str, Mapping[str, str]], Pipeline], tmp_path: Path) -> Pipeline:
    return pipeline_on((tmp_path / "store").as_uri(), {})
