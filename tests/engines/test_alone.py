"""`python -m engines.sdk run`: an engine process without a supervisor, from its start to its end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EventKind
from engines.sdk.manifest import CONFIG_EXIT
from tests.broker.conftest import events_of
from tests.supervisor.node import FIXTURE
from tests.support import Spawned, wait_until

Run = Callable[..., Spawned]


@pytest.fixture
def run(spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker, tmp_path: Path) -> Iterator[Run]:
    manifest = tmp_path / "engine.yaml"
    manifest.write_text(yaml.safe_dump({"id": "fix", "stage": "work", "command": ["python", str(FIXTURE)]}))
    yield lambda **env: spawn("-m", "engines.sdk", "run", str(manifest), env={**process_env, **env})
    for queue in broker.queues():
        broker.reset_queue(queue)


def test_a_stop_while_it_waits_for_work_logs_no_error(run: Run, broker: Broker) -> None:
    engine = run()
    reader = EventReader(broker, "test")
    broker.append([TaskMessage("t1", "j", "work", "work", 1, parameters={"mode": "say", "text": "hello"})])
    seen = []

    def completed() -> bool:
        seen.extend(events_of(reader))
        return any(event.kind is EventKind.TASK_COMPLETED for event in seen)

    wait_until(completed, what=lambda: engine.output)
    assert engine.stop() == 0
    assert not [word for word in ("for Redis", "Error", "Traceback", "closed") if word in engine.output], engine.output
    reader.close()


@pytest.mark.parametrize("supervised", [False, True])
def test_a_scratch_folder_that_cannot_be_written_is_named_at_the_start(
    run: Run, tmp_path: Path, supervised: bool
) -> None:
    (tmp_path / "file").touch()
    engine = run(
        DALSTON_SCRATCH_DIR=str(tmp_path / "file"), **({"DALSTON_ENGINE_ID": "n.fix.0.a"} if supervised else {})
    )
    assert engine.wait() == CONFIG_EXIT
    assert f"DALSTON_SCRATCH_DIR: {tmp_path / 'file'} can't be written by the user with id" in engine.output
    assert "Traceback" not in engine.output


def test_a_store_that_cannot_be_written_is_named_at_the_start(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    engine = run(DALSTON_ARTIFACTS_URL=(tmp_path / "file" / "store").as_uri())
    engine.wait_for("Tasks with files or large results will fail here")
    assert engine.stop() == 0
    assert "Traceback" not in engine.output
