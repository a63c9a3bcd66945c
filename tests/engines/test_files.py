"""Artifacts of a task: fetched, stored, handed to children by reference; a scratch folder that goes with the task."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.artifacts import Store, StoreError, open_store
from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EventKind
from engines.sdk import Done, Engine, Task, engine
from engines.sdk.files import Files, Inputs, Workspace
from engines.sdk.outcomes import Failed
from engines.sdk.testing import run_task
from tests.engines.workbench import QUEUE, Bench

LONG = "word " * 10_000


@engine
def upper(task: Task) -> dict[str, str]:
    made = task.folder / "upper.txt"
    made.write_text(task.artifact(task.parameters["file"]).read_text().upper())
    return {"file": task.put_artifact(made)}


def test_an_engine_reads_and_stores_files(tmp_path: Path) -> None:
    ref = open_store(tmp_path.as_uri()).put(io.BytesIO(b"hello")).ref
    run = run_task(upper, {"file": ref}, artifacts=tmp_path)
    assert isinstance(run.outcome, Done)
    assert run.store.read(run.outcome.result["file"]) == b"HELLO"


def test_a_missing_file_fails_the_task_and_names_it(tmp_path: Path) -> None:
    ref = f"sha256:{'0' * 64}"
    outcome = run_task(upper, {"file": ref}, artifacts=tmp_path).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.type, ref in outcome.message) == ("ArtifactMissing", True)


class Talker(Engine):
    def run(self, task: Task) -> Any:
        if "$stages" in task.parameters:
            return {"$stages": [{"stage": "next"}], "text": LONG}
        if "parent" in task.inputs:
            return {"words": len(task.inputs["parent"]["text"].split())}
        return {"text": LONG}


@pytest.fixture
def store(bench: Bench) -> Store:
    return open_store((bench.folder / "artifacts").as_uri())


def test_a_large_result_travels_by_reference_to_the_child(bench: Bench, store: Store, broker: Broker) -> None:
    bench.start(Talker(), max_result_bytes=10**6)
    result = bench.wait(EventKind.TASK_COMPLETED, bench.submit()).result
    assert result.keys() == {"$artifact", "size"}
    assert store.size(result["$artifact"]) == result["size"] > len(LONG)
    message = TaskMessage(
        task_id="child",
        job_id="child",
        queue=QUEUE,
        task_type=QUEUE,
        attempt=1,
        parameters={},
        inputs={"parent": result},
    )
    broker.append([message])
    assert bench.wait(EventKind.TASK_COMPLETED, "child").result == {"words": 10_000}


def test_a_result_that_asks_for_stages_stays_readable_for_the_server(bench: Bench) -> None:
    bench.start(Talker(), max_result_bytes=10**6)
    result = bench.wait(EventKind.TASK_COMPLETED, bench.submit(**{"$stages": True})).result
    assert result["$stages"] == [{"stage": "next"}]


def test_a_store_that_fails_fails_the_attempt(bench: Bench) -> None:
    (bench.folder / "artifacts").write_text("no folder")
    bench.start(Talker(), max_result_bytes=10**6)
    error = bench.wait(EventKind.TASK_FAILED, bench.submit()).error
    assert error.message.startswith("the result could not be stored: the artifact store can't be written")


def test_an_engine_without_a_store_says_how_to_get_one(tmp_path: Path) -> None:
    files = Workspace(None, tmp_path).files_of("j", "t", 1, 0)
    with pytest.raises(StoreError, match="DALSTON_ARTIFACTS_URL"):
        files.fetch(f"sha256:{'0' * 64}")
    assert files.with_stored_result(Done(LONG)) == Done(LONG)


def test_an_input_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    gone = {"$artifact": f"sha256:{'0' * 64}", "size": 1}
    inputs = Inputs({"a": 1, "b": gone}, Files(Workspace(None, tmp_path), tmp_path))
    assert (len(inputs), list(inputs), inputs["a"]) == (2, ["a", "b"], 1)
    with pytest.raises(StoreError):
        inputs["b"]


def test_what_a_dead_process_of_the_slot_has_left_is_removed(tmp_path: Path) -> None:
    left = Workspace(None, tmp_path / "node.asr.0").files_of("j", "t", 1, 0).folder
    (left / "half.wav").write_bytes(b"x")
    Workspace(None, tmp_path / "node.asr.0").clean_up()
    assert not left.exists()
