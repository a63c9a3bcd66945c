"""docs/write-an-engine.md is true: its code runs, its engine runs, and its table of fields is complete."""

import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from dalston_queue.artifacts import open_store
from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.messages import Event, TaskMessage
from dalston_queue.broker.protocol.types import EngineState, EventKind
from engines.sdk import Manifest
from tests.docs.blocks import ROOT, blocks_of
from tests.support import Spawned, wait_until

PAGE = (ROOT / "docs" / "write-an-engine.md").read_text()


def write_engine(folder: Path) -> Path:
    code, _, _ = blocks_of("docs/write-an-engine.md", "python")
    [manifest] = blocks_of("docs/write-an-engine.md", "yaml")
    (folder / "engine.py").write_text(code)
    (folder / "engine.yaml").write_text(manifest)
    return folder


def test_the_engine_is_twenty_lines_and_its_test_passes_without_servers(tmp_path: Path) -> None:
    code, test, functions = blocks_of("docs/write-an-engine.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    write_engine(tmp_path)
    (tmp_path / "check.py").write_text(test)
    subprocess.run([sys.executable, "check.py"], cwd=tmp_path, check=True)
    (tmp_path / "functions.py").write_text(
        functions
        + "\nfrom engines.sdk.testing import run_task\n"
        + "assert run_task(reverse, {'text': 'abc'}).outcome.result == 'cba'\n"
        + "assert run_task(later).outcome.result == 'now'\n"
    )
    subprocess.run([sys.executable, "functions.py"], cwd=tmp_path, check=True)


def test_the_engine_runs_alone_and_beats_for_itself(
    tmp_path: Path, spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker
) -> None:
    store = (tmp_path / "artifacts").as_uri()
    env = {**process_env, "DALSTON_NODE_ID": "alone", "DALSTON_HEARTBEAT_S": "0.2", "DALSTON_ARTIFACTS_URL": store}
    [line] = blocks_of("docs/write-an-engine.md", "sh")
    command = line.strip().replace("engines/shout/engine.yaml", str(write_engine(tmp_path) / "engine.yaml"))
    variable, python, *arguments = command.split()
    assert (variable.partition("=")[0], python) == ("REDIS_URL", "python")  # env has it, with this run's server
    process = spawn(*arguments, env=env)
    [engine] = wait_until(broker.registry.engines, what=f"its heartbeat\n{process.output}")
    assert (engine.state, engine.queues, engine.node_id) == (EngineState.READY, ("shout",), "alone")
    wait_until(lambda: broker.registry.engines()[0].beat > engine.beat, what="the next beat")
    task = str(uuid.uuid4())
    message = TaskMessage(
        task_id=task, job_id=task, queue="shout", task_type="shout", attempt=1, parameters={"text": "hi"}
    )
    broker.append([message])
    reader = EventReader(broker, "test")

    def completed() -> list[Event]:
        events = [event for event in reader.read(block_ms=50) if isinstance(event, Event)]
        reader.ack(events)
        return [event for event in events if event.kind is EventKind.TASK_COMPLETED]

    result = wait_until(completed, what="its result")[0].result
    assert result["text"] == "HI!"
    assert open_store(store).read(result["file"]) == b"HI"
    assert process.stop() == 0
    assert broker.registry.engines() == []
    broker.reset_queue("shout")


def test_every_field_of_the_manifest_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`.*?)\|", PAGE.split("## engine.yaml")[1], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named >= {field.name for field in msgspec.structs.fields(Manifest)} - {"folder"}


def test_a_wrong_call_and_a_broken_manifest_have_different_exit_codes(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "engines.sdk"], capture_output=True, text=True, check=False)
    assert (done.returncode, "usage: python -m engines.sdk run" in done.stderr) == (2, True)
    argv = [sys.executable, "-m", "engines.sdk", "run", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, "engine.yaml: can't be read" in done.stderr) == (78, True)
