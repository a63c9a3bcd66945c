"""GET /tasks/{id}/why: one code and sentence for each reason why a task is not running."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import EngineState, NodeState, Priority
from dalston_queue.jobs.operator.pause import pause
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, Limit, Project, Sample, Task
from tests.api.conftest import Api
from tests.jobs import make


@pytest.fixture
def task(api: Api) -> Task:
    return Task.objects.get(pk=api.post("/tasks", {"task_type": "echo"}).json()["task_id"])


def read(api: Api, task: Task) -> dict[str, Any]:
    answer: dict[str, Any] = api.get(f"/tasks/{task.pk}/why").json()
    return answer


def why(api: Api, task: Task) -> tuple[str, str]:
    answer = read(api, task)
    return answer["code"], answer["why"]


def enqueue(broker: Broker, task: Task) -> None:
    message = TaskMessage(
        task_id=str(task.pk),
        job_id=str(task.job_id),
        queue=task.queue,
        task_type=task.task_type,
        attempt=1,
        required_capabilities=tuple(task.required_capabilities),
        priority=Priority(task.priority),
    )
    broker.append([message])
    Task.objects.filter(pk=task.pk).update(status="queued")


def beat(
    broker: Broker,
    *capabilities: str,
    state: EngineState = EngineState.READY,
    capacity: int = 1,
    running: int = 0,
    **info: str,
) -> None:
    engine = EngineBeat(
        engine_id=f"n.{'-'.join(capabilities) or 'demo'}.0.b",
        state=state,
        queues=("echo", "sleep"),
        capabilities=capabilities,
        capacity=capacity,
        info={"running": running, **info},
    )
    broker.registry.beat_node("n", NodeState.ACTIVE, [engine])


def test_its_job_is_not_claimed_yet(api: Api, task: Task) -> None:
    assert why(api, task)[0] == "not_claimed"


def test_it_waits_for_other_stages(api: Api) -> None:
    stages = [{"stage": "split"}, {"stage": "echo", "after": ["split"]}]
    api.post("/jobs", {"name": "x", "stages": stages})
    assert why(api, Task.objects.get(stage="echo")) == ("waiting_for_stages", "It waits for split to be over.")


def test_it_waits_for_its_time_and_until_when(api: Api, task: Task) -> None:
    at = timezone.now() + timedelta(seconds=100)
    Task.objects.update(status="scheduled", scheduled_at=at)
    answer = read(api, task)
    assert answer["code"] == "scheduled"
    assert datetime.fromisoformat(answer["until"]) == at
    assert f"{at:%Y-%m-%d %H:%M:%S} UTC" in answer["why"]
    assert answer["queue_position"] is None


def test_it_waits_for_a_retry_and_which_attempt_failed(api: Api, task: Task) -> None:
    """The row has the next attempt as soon as the last one has failed."""
    at = timezone.now() + timedelta(seconds=100)
    Task.objects.update(status="scheduled", scheduled_at=at, retry_count=1, attempt=2)
    answer = read(api, task)
    assert answer["code"] == "backoff"
    assert "attempt 1 failed, and attempt 2 starts in " in answer["why"]
    assert f"{at:%Y-%m-%d %H:%M:%S} UTC" in answer["why"]
    assert datetime.fromisoformat(answer["until"]) == at


def test_it_is_ready_and_not_queued_yet(api: Api, task: Task) -> None:
    Task.objects.update(status="ready", first_enqueued_at=timezone.now())
    assert why(api, task)[0] == "not_dispatched"


def ready(project: Project, count: int = 1, **wanted: Any) -> list[Task]:
    """Tasks that are READY, oldest first."""
    made = []
    for _ in range(count):
        job = Job.objects.get(pk=submit(single_task("echo", **wanted), project=project).job_id)
        make.claim(job)
        made.append(Task.objects.get(job=job))
    return made


def test_a_limit_holds_it_back(api: Api, project: Project) -> None:
    Limit.objects.create(queue="echo", project=project, concurrency_key="*", max_in_flight=2)
    first, _, third = ready(project, 3, concurrency_key="42")
    [other] = ready(project, concurrency_key="43")
    refill(None, timezone.now())
    code, sentence = why(api, third)
    assert (code, sentence) == (
        "limit", "A limit holds it back: key 42 of project alpha has 2 of 2 in flight in the queue echo.",
    )  # fmt: skip
    assert [why(api, task)[0] for task in (first, other)] == ["no_engine", "no_engine"]


def test_a_limit_of_starts_holds_it_back(api: Api, project: Project) -> None:
    Limit.objects.create(queue="echo", starts_per_minute=1)
    _, second = ready(project, 2)
    refill(None, timezone.now())
    code, sentence = why(api, second)
    assert code == "limit"
    assert "the queue echo may start 1 a minute; the next start is in about " in sentence


def test_it_waits_in_postgres_behind_its_window_and_shares_the_slots(
    api: Api, operator: Api, project: Project, broker: Broker
) -> None:
    """The window holds four. Another project is named to those who see it only."""
    big = Project.objects.create(name="big")
    ready(big, 6)
    refill(None, timezone.now())
    first, second = ready(project, 2)
    beat(broker, running=1)
    answer = read(api, second)
    assert (answer["code"], answer["queue_position"]) == ("shares", 4 + 1 * 2 + 1)
    assert answer["why"] == (
        "It shares the slots: other projects have 4 of 4 in flight, its own 0; it is about number 7 in the queue for 1 "
        "slot, and when its turn comes is not known yet."
    )
    assert read(operator, first)["why"].startswith("It shares the slots: project big has 4 of 4 in flight, its own 0; ")
    assert read(api, first)["queue_position"] == 5


def test_alone_in_its_queue_it_waits_for_busy_engines(api: Api, project: Project, broker: Broker) -> None:
    *_, last = ready(project, 8)
    refill(None, timezone.now())
    assert why(api, last)[0] == "no_engine"
    beat(broker, running=1)
    answer = read(api, last)
    assert (answer["code"], answer["queue_position"]) == ("all_busy", 8)


def test_the_reads_do_not_grow_with_what_waits(api: Api, project: Project, broker: Broker) -> None:
    def reads(task: Task) -> int:
        with CaptureQueriesContext(connection) as queries:
            why(api, task)
        return len(queries)

    [first] = ready(project)
    before = reads(first)
    *_, last = ready(project, 20, concurrency_key="42")
    refill(None, timezone.now())
    assert reads(last) == before


def test_its_queue_is_paused(api: Api, task: Task, broker: Broker) -> None:
    enqueue(broker, task)
    pause("echo", timezone.now(), actor="ada", reason="driver update")
    assert why(api, task) == ("paused", "The queue echo is paused: driver update.")


def test_no_engine_or_none_that_can(api: Api, broker: Broker) -> None:
    body = {"task_type": "echo", "required_capabilities": ["gpu"]}
    task = Task.objects.get(pk=api.post("/tasks", body).json()["task_id"])
    enqueue(broker, task)
    assert why(api, task)[0] == "no_engine"
    beat(broker, "cpu", state=EngineState.LOADING)
    assert why(api, task) == ("no_engine", "No ready engine serves the queue echo.")
    beat(broker, "cpu", state=EngineState.LOADING, slot="demo.0", why="fetching the model, 40 %")
    sentence = "No ready engine serves the queue echo. demo.0 is loading: fetching the model, 40 %."
    assert why(api, task) == ("no_engine", sentence)
    beat(broker, "cpu")
    code, sentence = why(api, task)
    assert code == "no_capable_engine"
    assert "none with gpu" in sentence


def test_all_are_busy_and_its_queue_position(api: Api, task: Task, broker: Broker) -> None:
    for number in range(3):
        first = TaskMessage(
            task_id=f"t{number}", job_id="j", queue="echo", task_type="echo", attempt=1, priority=Priority.HIGH
        )
        broker.append([first])
    beat(broker, running=1)
    consumer = Consumer(broker, "n.demo.0.b", ["echo"], capacity=1)
    consumer.open()
    consumer.exchange([], 1)
    enqueue(broker, task)
    later = Task.objects.get(pk=api.post("/tasks", {"task_type": "echo"}).json()["task_id"])
    enqueue(broker, later)
    answers = [read(api, each) for each in (task, later)]
    assert [(answer["code"], answer["queue_position"]) for answer in answers] == [("all_busy", 3), ("all_busy", 4)]
    assert answers[0]["eta_seconds"] is None
    assert "it is number 3 in the queue for 1 slot, and when its turn comes is not known yet" in answers[0]["why"]


def test_tasks_that_its_engines_cannot_run_do_not_count_in_its_position(api: Api, broker: Broker) -> None:
    body = {"task_type": "echo", "required_capabilities": ["nope"]}
    for _ in range(3):
        enqueue(broker, Task.objects.get(pk=api.post("/tasks", body).json()["task_id"]))
    task = Task.objects.get(pk=api.post("/tasks", {"task_type": "echo"}).json()["task_id"])
    enqueue(broker, task)
    beat(broker, running=1)
    assert read(api, task)["queue_position"] == 1


def test_all_are_busy_with_another_queue(api: Api, task: Task, broker: Broker) -> None:
    enqueue(broker, task)
    beat(broker, capacity=4, running=4)
    assert why(api, task)[0] == "all_busy"


def test_a_capable_engine_has_a_free_slot(api: Api, broker: Broker) -> None:
    """However busy the other engines are."""
    body = {"task_type": "echo", "required_capabilities": ["gpu"]}
    task = Task.objects.get(pk=api.post("/tasks", body).json()["task_id"])
    enqueue(broker, task)
    beat(broker, "cpu", running=1)
    beat(broker, "gpu")
    answer = read(api, task)
    assert (answer["code"], answer["queue_position"]) == ("about_to_run", 1)
    beat(broker, "gpu", running=1)
    assert why(api, task)[0] == "all_busy"


def test_all_are_busy_and_when_it_starts(api: Api, task: Task, broker: Broker) -> None:
    """By the tasks that ran while others waited: an idle queue has no rate, and tasks cancelled in the queue did not
    run."""
    enqueue(broker, task)
    beat(broker, running=1)
    home = broker.home
    home.command("HSET", home.keys.counters("echo"), "completed", 20, "failed", 5, "removed", 190)
    snapshot = broker.snapshot(["echo"])

    def sample(seconds: int, gone: int, waiting: int) -> None:
        """Counters are read at any second of a sample's minute."""
        numbers = {"waiting": waiting, "ran": 25 - gone, "at_ms": snapshot.at_ms - 1000 * seconds}
        minute = timezone.now() - timedelta(seconds=seconds + 40)
        Sample.objects.create(kind="queue", name="echo", at=minute, numbers=numbers)

    sample(seconds=180, gone=13, waiting=0)
    assert read(api, task)["eta_seconds"] is None
    sample(seconds=120, gone=12, waiting=1)
    sample(seconds=60, gone=6, waiting=3)
    answer = read(api, task)
    assert (answer["code"], answer["queue_position"]) == ("all_busy", 1)
    assert answer["eta_seconds"] == pytest.approx(10, abs=0.5)
    assert "its turn comes in about 10 s" in answer["why"]


def test_it_runs_or_is_over(api: Api, task: Task) -> None:
    Task.objects.update(status="running", assigned_worker_id="n.demo.0.b")
    assert why(api, task) == ("running", "It runs on n.demo.0.b.")
    Task.objects.update(cancel_requested_at=timezone.now())
    assert why(api, task)[0] == "stopping"
    Task.objects.update(status="dead_letter", finished_at=timezone.now())
    assert why(api, task) == ("over", "It is over: dead letter.")


def test_a_worker_is_busy_from_its_poll_to_its_result(api: Api, broker: Broker, token_for: Callable[..., str]) -> None:
    """At once, not only after its next heartbeat."""
    worker = Api(token_for("worker"))
    registered = worker.post("/internal/workers/register", {"stages": ["echo"], "capacity": 1}).json()
    path = f"/internal/workers/{registered['worker_id']}"
    first, second = (Task.objects.get(pk=api.post("/tasks", {"task_type": "echo"}).json()["task_id"]) for _ in range(2))
    enqueue(broker, first)
    [task] = worker.post(f"{path}/poll", {"held": []}).json()["tasks"]
    enqueue(broker, second)
    assert why(api, second)[0] == "all_busy"
    hold = {"task_id": task["task_id"], "attempt": task["attempt"]}
    assert worker.post(f"{path}/result", {**hold, "status": "completed"}).status_code == 200
    assert why(api, second)[0] == "about_to_run"
    again = worker.post(f"{path}/result", {**hold, "status": "completed"})
    assert again.status_code in (200, 503), "a repeated result frees nothing more"
    [engine] = broker.registry.engines()
    assert engine.report.running == 0
