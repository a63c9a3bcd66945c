"""/tasks/{id}/why: one sentence for each reason why a task does not run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.messages import TaskMessage
from dalston_queue.broker.registry import EngineBeat
from dalston_queue.broker.types import EngineState, NodeState, Priority
from dalston_queue.jobs.pause import pause
from dalston_queue.models import Task
from tests.api.conftest import Api


@pytest.fixture
def task(api: Api) -> Task:
    return Task.objects.get(pk=api.post("/tasks", {"task_type": "echo"}).json()["task_id"])


def why(api: Api, task: Task) -> tuple[str, str]:
    answer = api.get(f"/tasks/{task.pk}/why").json()
    return answer["code"], answer["why"]


def put_in_line(broker: Broker, task: Task) -> None:
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


def beat(broker: Broker, *capabilities: str, state: EngineState = EngineState.READY, capacity: int = 1) -> None:
    engine = EngineBeat(
        engine_id="n.demo.0.b", state=state, queues=("echo",), capabilities=capabilities, capacity=capacity
    )
    broker.registry.beat_node("n", NodeState.ACTIVE, [engine])


def test_nobody_took_up_its_job(api: Api, task: Task) -> None:
    assert why(api, task)[0] == "not_claimed"


def test_it_waits_for_other_stages(api: Api) -> None:
    stages = [{"stage": "split"}, {"stage": "echo", "after": ["split"]}]
    api.post("/jobs", {"name": "x", "stages": stages})
    assert why(api, Task.objects.get(stage="echo")) == ("waiting_for_stages", "It waits for split to be over.")


def test_it_waits_for_its_time_or_for_a_retry(api: Api, task: Task) -> None:
    at = timezone.now() + timedelta(seconds=100)
    Task.objects.update(status="scheduled", scheduled_at=at)
    assert why(api, task)[0] == "scheduled"
    Task.objects.update(retry_count=1)
    code, sentence = why(api, task)
    assert code == "backoff"
    assert "starts in " in sentence


def test_it_is_ready_and_not_in_line_yet(api: Api, task: Task) -> None:
    Task.objects.update(status="ready")
    assert why(api, task)[0] == "not_dispatched"


def test_its_queue_is_paused(api: Api, task: Task, broker: Broker) -> None:
    put_in_line(broker, task)
    pause("echo", timezone.now(), actor="ada", reason="driver update")
    assert why(api, task) == ("paused", "The queue echo is paused: driver update.")


def test_no_engine_or_none_that_can(api: Api, broker: Broker) -> None:
    body = {"task_type": "echo", "required_capabilities": ["gpu"]}
    task = Task.objects.get(pk=api.post("/tasks", body).json()["task_id"])
    put_in_line(broker, task)
    assert why(api, task)[0] == "no_engine"
    beat(broker, "cpu", state=EngineState.LOADING)
    assert why(api, task)[0] == "no_engine"
    beat(broker, "cpu")
    code, sentence = why(api, task)
    assert code == "no_capable_engine"
    assert "none with gpu" in sentence


def test_all_are_busy_and_how_many_are_before_it(api: Api, task: Task, broker: Broker) -> None:
    for number in range(3):
        first = TaskMessage(
            task_id=f"t{number}", job_id="j", queue="echo", task_type="echo", attempt=1, priority=Priority.HIGH
        )
        broker.append([first])
    beat(broker)
    consumer = Consumer(broker, "n.demo.0.b", ["echo"], capacity=1)
    consumer.open()
    consumer.exchange([], 1)
    put_in_line(broker, task)
    code, sentence = why(api, task)
    assert code == "all_busy"
    assert "2 wait before it and 0 beside it, for 1 slots" in sentence


def test_it_runs_or_is_over(api: Api, task: Task) -> None:
    Task.objects.update(status="running", assigned_worker_id="n.demo.0.b")
    assert why(api, task) == ("running", "It runs on n.demo.0.b.")
    Task.objects.update(cancel_requested_at=timezone.now())
    assert why(api, task)[0] == "stopping"
    Task.objects.update(status="dead_letter", finished_at=timezone.now())
    assert why(api, task) == ("over", "It is over: dead letter.")
