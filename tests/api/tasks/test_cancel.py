"""DELETE of a task or a job: its status, whether it was running, and whether its engine was notified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Cancelled, Completed
from dalston_queue.jobs.lifecycle.status import LOCK_JOBS
from dalston_queue.models import Task
from dalston_queue.orchestrator.batch import handle
from tests.api.conftest import Api
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
STAGES = [{"stage": "a", "queue": "echo"}, {"stage": "b", "queue": "echo", "after": ["a"]}]


@pytest.fixture
def steps(broker: Broker) -> Steps:
    return Steps(broker)


def cancel(api: Api, path: str) -> dict[str, Any]:
    answer = api.call("DELETE", path)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def submit(api: Api, **more: Any) -> str:
    return str(api.post("/tasks", {"task_type": "echo", **more}).json()["task_id"])


def cancelled(task_id: str, status: str, *, was_running: bool = False, engine_notified: bool = False) -> dict[str, Any]:
    return {"task_id": task_id, "status": status, "was_running": was_running, "engine_notified": engine_notified}


def test_a_task_that_waits_was_not_running(api: Api, steps: Steps) -> None:
    scheduled, queued = submit(api, scheduled_at=f"{timezone.now() + timedelta(days=1)}"), submit(api)
    steps.poll()
    for task in (scheduled, queued):
        assert cancel(api, f"/tasks/{task}") == cancelled(task, "cancelled")


def test_a_running_task_was_running_and_its_engine_is_notified_each_time(
    api: Api, broker: Broker, steps: Steps
) -> None:
    """Once the task has stopped, no engine is notified."""
    task = submit(api)
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        for _ in range(2):
            assert cancel(api, f"/tasks/{task}") == cancelled(task, "running", was_running=True, engine_notified=True)
        claimed.settle(Cancelled())
        steps.drain()
    assert cancel(api, f"/tasks/{task}") == cancelled(task, "cancelled")


def test_a_task_whose_start_is_not_recorded_yet_was_running(api: Api, broker: Broker, steps: Steps) -> None:
    task = submit(api)
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        assert cancel(api, f"/tasks/{task}") == cancelled(task, "queued", was_running=True, engine_notified=True)


def test_while_redis_is_away_no_engine_is_notified(api: Api, broker: Broker, steps: Steps, settings: Settings) -> None:
    task = submit(api)
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        address, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
        assert cancel(api, f"/tasks/{task}") == cancelled(task, "running", was_running=True)
        settings.REDIS_URL = address
        assert cancel(api, f"/tasks/{task}")["engine_notified"]


def test_a_stage_that_waits_for_one_that_runs_was_not_running_but_its_job_was(
    api: Api, broker: Broker, steps: Steps
) -> None:
    job = api.post("/jobs", {"name": "two", "stages": STAGES}).json()["job_id"]
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        waiting = str(Task.objects.get(job_id=UUID(job), stage="b").pk)
        assert cancel(api, f"/tasks/{waiting}") == cancelled(waiting, "cancelled")
        answer = cancel(api, f"/jobs/{job}")
    assert answer == {"job_id": job, "status": "cancelling", "was_running": True, "engine_notified": True}


@contextmanager
def between_its_transactions(action: Callable[[], object]) -> Iterator[None]:
    """Each begins by locking the job; `action` commits on a connection of its own before the second one does."""
    locks = 0

    def run() -> None:
        try:
            action()
        finally:
            connections.close_all()

    def execute_after_it(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        nonlocal locks
        locks += sql == LOCK_JOBS
        if sql == LOCK_JOBS and locks == 2:
            with ThreadPoolExecutor(1) as other:
                other.submit(run).result()
        return execute(sql, *arguments)

    with connection.execute_wrapper(execute_after_it):
        yield
    assert locks >= 2


@pytest.mark.parametrize("noun", ["task", "job"])
def test_an_end_before_the_cancel_takes_effect_is_a_conflict(api: Api, broker: Broker, steps: Steps, noun: str) -> None:
    submitted = api.post("/tasks", {"task_type": "echo"}).json()
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        claimed.settle(Completed(1))
        with between_its_transactions(steps.drain):
            answer = api.call("DELETE", f"/{noun}s/{submitted[f'{noun}_id']}")
    assert answer.status_code == 409, answer.content
    assert (answer.json()["code"], "completed" in answer.json()["detail"]) == ("state_conflict", True)


def test_a_task_that_ends_by_itself_while_its_cancel_stops_the_rest_of_its_job_is_no_conflict(
    api: Api, broker: Broker, steps: Steps
) -> None:
    """409 would mean that nothing was done."""
    job = api.post("/jobs", {"name": "two", "stages": STAGES}).json()["job_id"]
    task = str(Task.objects.get(job_id=UUID(job), stage="a").pk)
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        claimed.settle(Completed(1))
        with between_its_transactions(steps.drain):
            assert cancel(api, f"/tasks/{task}") == cancelled(task, "completed", was_running=True)
    assert Task.objects.get(job_id=UUID(job), stage="b").status == "cancelled"
    assert api.call("DELETE", f"/tasks/{task}").status_code == 409, "now nothing is left to stop"


def test_a_task_that_ends_by_itself_while_its_siblings_engine_is_notified_is_no_conflict(
    api: Api, broker: Broker, steps: Steps
) -> None:
    both = [{"stage": stage, "queue": "echo"} for stage in "ab"]
    job = api.post("/jobs", {"name": "two", "stages": both}).json()["job_id"]
    steps.poll()
    with engine(broker, capacity=2) as consumer:
        claimed, sibling = consumer.claim()
        steps.drain()
        claimed.settle(Completed(1))
        with between_its_transactions(steps.drain):
            answer = cancel(api, f"/tasks/{claimed.message.task_id}")
        assert answer == cancelled(claimed.message.task_id, "completed", was_running=True)
        assert api.get(f"/jobs/{job}").json()["status"] == "cancelling"
        sibling.settle(Cancelled())
        steps.drain()
    assert api.get(f"/jobs/{job}").json()["status"] == "cancelled"


def test_a_job_with_only_optional_work_left_completes_when_it_is_cancelled(
    api: Api, broker: Broker, steps: Steps
) -> None:
    stages = [{"stage": "a", "queue": "echo"}, {"stage": "b", "queue": "echo", "after": ["a"], "required": False}]
    job = api.post("/jobs", {"name": "two", "stages": stages}).json()["job_id"]
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        claimed.settle(Completed(1))
        steps.drain()
    assert cancel(api, f"/jobs/{job}")["status"] == "completed"


def test_a_task_that_is_seen_to_start_during_its_cancel_was_running(api: Api, broker: Broker, steps: Steps) -> None:
    """It had settled as well, so no engine is notified; the event of its end is not handled yet."""
    optional = [{"stage": "a", "queue": "echo", "required": False}]
    job = api.post("/jobs", {"name": "one", "stages": optional}).json()["job_id"]
    task = str(Task.objects.get(job_id=UUID(job)).pk)
    steps.poll()
    steps.drain()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        claimed.settle(Completed(1))
        started, completed = steps.events()
        with between_its_transactions(lambda: handle([started], timezone.now())):
            assert cancel(api, f"/tasks/{task}") == cancelled(task, "running", was_running=True)
        handle([completed], timezone.now())
