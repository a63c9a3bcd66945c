"""manage.py doctor and manage.py why: their sentences and exit codes."""

import io
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState
from tests.supervisor.conftest import NvmlStub
from tests.support import Spawned

ENGINES = Path(__file__).resolve().parents[2] / "engines"


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command(*arguments, stdout=out)
    return int(left.value.code or 0), out.getvalue()


def doctor(tmp_path: Path, engines: Path = ENGINES) -> tuple[int, str]:
    return run("doctor", "--engines", str(engines), "--state-dir", str(tmp_path / "state"))


def test_an_empty_redis_url_is_broken(tmp_path: Path, settings: Settings) -> None:
    settings.REDIS_URL = ""
    code, text = doctor(tmp_path)
    assert code == 2
    assert "broken    redis: REDIS_URL is empty" in text
    assert "engines: align x1, demo x1" in text, "the rest is examined all the same"


def test_the_artifact_store_is_tried(tmp_path: Path, prefix: str, settings: Settings) -> None:
    settings.DALSTON_ARTIFACTS_URL = (tmp_path / "store").as_uri()
    assert f"ok        artifacts: file://{tmp_path}/store can be used" in doctor(tmp_path)[1]
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []
    (tmp_path / "file").write_text("")
    settings.DALSTON_ARTIFACTS_URL = (tmp_path / "file").as_uri()
    code, text = doctor(tmp_path)
    assert (code, "broken    artifacts: the artifact store can't be written: Not a directory" in text) == (2, True)
    settings.DALSTON_ARTIFACTS_URL = ""
    assert "degraded  artifacts: DALSTON_ARTIFACTS_URL is empty" in doctor(tmp_path)[1]


def test_a_node_without_a_gpu_is_a_normal_node(tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    code, text = doctor(tmp_path)
    assert code < 2
    assert "ok        redis: answers in" in text
    assert "ok        engines: align x1, demo x1" in text
    assert "ok        clock: within" in text
    assert "ok        gpu: no NVIDIA library" in text
    assert "setpriv" in text
    assert "cgroup" in text


def test_a_driver_that_does_not_fit_its_library_is_degraded(
    tmp_path: Path, prefix: str, nvml: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    nvml.set("init 18")
    code, text = doctor(tmp_path)
    assert code == 1
    assert "degraded  gpu: driver and library have different versions" in text
    nvml.set("gpu GPU-a 16000 100")
    assert "ok        gpu: driver 999.1, 0: Stub GPU, 100 of 16000 MiB used" in doctor(tmp_path)[1]


def test_broken_findings_give_exit_code_2(tmp_path: Path, prefix: str, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    (tmp_path / "engine.yaml").write_text("id: x\n")
    code, text = doctor(tmp_path, tmp_path)
    assert code == 2
    assert "broken    redis: " in text
    assert "engine.yaml: field command: object missing required field" in text


def beat(broker: Broker, state: EngineState, why: str = "", capabilities: tuple[str, ...] = ()) -> None:
    info = {"slot": "fix.0", "why": why, "exits": 2, "last_exit": "signal 9 (SIGKILL)"}
    engine = EngineBeat(
        engine_id="n.fix.0.a", state=state, queues=("work",), capabilities=capabilities, capacity=1, info=info
    )
    broker.registry.beat_node("n", NodeState.ACTIVE, [engine], {"why": ""})


def forget(broker: Broker) -> None:
    broker.registry.forget(["n.fix.0.a"], ["n"])
    broker.reset_queue("work")


@pytest.mark.parametrize("name", ["fix", "fix.0", "n.fix.0.a", "n"])
def test_an_engine_is_explained_by_any_of_its_names(broker: Broker, name: str) -> None:
    beat(broker, EngineState.READY)
    assert run("why", name)[0] == 0
    beat(broker, EngineState.CRASHLOOP, "exit code 3")
    code, text = run("why", name)
    assert code == 1
    assert "n.fix.0.a is crashloop: exit code 3." in text
    assert "2 earlier processes ended; the last: signal 9 (SIGKILL)" in text
    forget(broker)


def test_an_unknown_name_is_no_answer(prefix: str) -> None:
    with pytest.raises(CommandError, match="no engine, slot or node is called 'missing'") as refused:
        call_command("why", "missing")
    assert refused.value.returncode == 2


def submit() -> uuid.UUID:
    from dalston_queue.models import Job, Project, Task

    project = Project.objects.create(name="p")
    job = Job.objects.create(project=project, created_at=timezone.now())
    task = Task.objects.create(
        job=job,
        project=project,
        stage="work",
        queue="work",
        lane="work@big",
        task_type="work",
        timeout_seconds=60,
        max_retries=1,
        created_at=timezone.now(),
        required_capabilities=["big"],
        status="queued",
    )
    return task.pk


@pytest.mark.django_db
def test_a_waiting_task_says_what_it_waits_for(broker: Broker) -> None:
    from dalston_queue.broker.protocol.messages import TaskMessage

    task = str(submit())
    assert "It is ready and will be queued within a second." in run("why", task)[1]  # Redis knows no such queue
    message = TaskMessage(
        task_id=task, job_id="j", queue="work", task_type="work", attempt=1, required_capabilities=("big",)
    )
    broker.append([message])
    code, text = run("why", task)
    assert (code, "No ready engine serves the queue work." in text) == (1, True)
    beat(broker, EngineState.READY)
    code, text = run("why", task)
    assert (code, "No engine of work can run it: 1 ready, none with big." in text) == (1, True)
    beat(broker, EngineState.LOADING, "loading the model", capabilities=("big",))
    assert "n.fix.0.a is loading: loading the model." in run("why", task)[1]
    beat(broker, EngineState.READY, capabilities=("big",))
    code, text = run("why", task)
    assert (code, "It should start soon" in text) == (0, True)
    forget(broker)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"status": "queued"}, 0, "will be queued within a second"),
        ({"status": "running", "assigned_worker_id": "n.fix.0.b"}, 0, "n.fix.0.b does not beat any more"),
        ({"status": "completed"}, 0, "It is over: completed."),
        ({"status": "failed", "error": "bad audio", "error_cause": "rejected"}, 1, "(rejected): bad audio"),
    ],
)
def test_a_task_is_explained_as_by_the_api_without_its_queue_in_redis(
    prefix: str, fields: dict[str, str], code: int, sentence: str
) -> None:
    from dalston_queue.models import Task

    task = submit()
    over = timezone.now() if fields["status"] in ("completed", "failed") else None
    Task.objects.filter(pk=task).update(finished_at=over, **fields)
    answer, text = run("why", str(task))
    assert (answer, sentence in text) == (code, True), text


@pytest.mark.django_db
def test_a_task_that_does_not_exist_is_no_answer(prefix: str) -> None:
    with pytest.raises(CommandError, match="there is no task"):
        call_command("why", str(uuid.uuid4()))


def test_a_node_without_a_database_says_that_a_task_needs_it(spawn: Callable[..., Spawned], prefix: str) -> None:
    process = spawn("manage.py", "why", str(uuid.uuid4()))
    assert process.wait() == 2
    assert "needs the database, and there is none here" in process.output
