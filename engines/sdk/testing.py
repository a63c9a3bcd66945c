"""Runs one task on an engine without Redis and supervisor, for the engine author's own tests.

done = run_task(my_engine, {"text": "hello"})
assert done.outcome == Done({"text": "HELLO"})
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from dalston_queue.artifacts import Store, open_store

from .engine import Engine
from .files import Inputs, Workspace
from .outcomes import Outcome
from .process.slots import Slots
from .process.workers import make_workers
from .task import Task


@dataclass(frozen=True, slots=True)
class TestRun:
    """Outcome and progress reports of one task, and the store with its artifacts."""

    __test__ = False  # pytest: this is not a test

    outcome: Outcome
    progress: list[tuple[float, str]]
    store: Store


def run_task(
    engine: Engine,
    parameters: Mapping[str, Any] | None = None,
    *,
    queue: str = "test",
    task_type: str = "",
    inputs: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    cancel_after: float | None = None,
    artifacts: Path | None = None,
) -> TestRun:
    """`load`, one `run`, `close`. Parameters and inputs pass through JSON, as in production. Artifacts are read from,
    and put into, the store in the folder `artifacts`; a large result is returned as it is."""
    folder = artifacts or Path(tempfile.mkdtemp(prefix="dalston-artifacts-"))
    store = open_store(folder.absolute().as_uri())
    workspace = Workspace(store, Path(tempfile.mkdtemp(prefix="dalston-task-")), large_result_bytes=math.inf)
    files = workspace.files_of("job", "task", 1, 0)
    progress: list[tuple[float, str]] = []
    task = Task(
        id="task",
        job_id="job",
        queue=queue,
        stage=queue,
        task_type=task_type or queue,
        attempt=1,
        deliveries=0,
        parameters=_through_json(parameters or {}),
        inputs=Inputs(_through_json(inputs or {}), files),
        files=files,
        timeout=timeout or 0.0,
        on_progress=lambda task: progress.append((task.fraction, task.message)),
    )
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    slots = Slots(1)
    workers = make_workers(engine, slots, lambda _, outcome: outcomes.put(outcome))
    workers.call(engine.load)
    slots.put(task)
    workers.start()
    if cancel_after is not None:
        threading.Timer(cancel_after, workers.cancel, [task]).start()
    outcome = outcomes.get()
    workers.call(engine.close)
    workspace.clean_up()
    return TestRun(outcome, progress, store)


def _through_json(value: Mapping[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return decoded
