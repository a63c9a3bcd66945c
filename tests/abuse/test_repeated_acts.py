"""Acts that a client repeats: what changes nothing writes nothing into the audit trail, which is kept for ever."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import RecordState
from dalston_queue.models import Job, OperatorAction, Project, Task, WebhookDelivery
from tests.api.conftest import Api
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]


@pytest.fixture
def submitter(token_for: Callable[..., str]) -> Api:
    return Api(token_for("submit"))


def _rows() -> int:
    return OperatorAction.objects.count()


@pytest.mark.parametrize("noun", ["tasks", "jobs"])
def test_a_cancel_of_what_is_over_is_on_record_once(submitter: Api, noun: str) -> None:
    task = submitter.post("/tasks", {"task_type": "echo"}).json()
    path = f"/{noun}/{task['task_id' if noun == 'tasks' else 'job_id']}"
    first = submitter.call("DELETE", path)
    assert first.status_code == 200
    assert [submitter.call("DELETE", path).json() for _ in range(5)] == [first.json()] * 5
    assert _rows() == 1


@pytest.mark.parametrize("noun", ["tasks", "jobs"])
def test_a_cancel_of_what_stops_already_is_on_record_once(submitter: Api, broker: Broker, noun: str) -> None:
    steps = Steps(broker)
    submitter.post("/tasks", {"task_type": "echo"})
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        path = f"/{noun}/{claimed.task_id if noun == 'tasks' else Task.objects.get().job_id}"
        answers = [submitter.call("DELETE", path).json() for _ in range(5)]
        assert answers == [answers[0]] * 5
        assert answers[0]["was_running"]
        assert answers[0]["engine_notified"]
        assert broker.records("echo", [claimed.task_id])[claimed.task_id].state is RecordState.RUNNING
    assert _rows() == 1


def test_a_stage_that_still_waits_can_be_cancelled(submitter: Api, broker: Broker) -> None:
    """Cancelling an optional stage is no cancel of its job."""
    stages = [{"stage": "a", "queue": "echo"}, {"stage": "b", "queue": "echo", "required": False}]
    job = submitter.post("/jobs", {"name": "test", "stages": stages}).json()
    optional = Task.objects.get(stage="b")
    assert submitter.call("DELETE", f"/tasks/{optional.id}").status_code == 200
    assert submitter.call("DELETE", f"/jobs/{job['job_id']}").json()["status"] == "cancelled"
    assert _rows() == 2


def test_a_refused_cancel_writes_nothing(submitter: Api) -> None:
    task = submitter.post("/tasks", {"task_type": "echo"}).json()
    Task.objects.update(status="completed", finished_at=timezone.now())
    assert submitter.call("DELETE", f"/tasks/{task['task_id']}").status_code == 409
    assert submitter.call("DELETE", f"/tasks/{Project.objects.get().pk}").status_code == 404
    assert _rows() == 0


def test_a_webhook_that_is_due_is_sent_again_without_a_row(submitter: Api) -> None:
    submitter.post("/tasks", {"task_type": "echo"})
    job, now = Job.objects.get(), timezone.now()
    row = WebhookDelivery.objects.create(
        job=job, url="https://example.com/", origin="https://example.com", status="completed", finished_at=now,
        next_at=now + timedelta(hours=1), attempts=3, state="gave_up",
    )  # fmt: skip
    path = f"/jobs/{job.id}/webhooks/{row.id}/send"
    assert [submitter.post(path).status_code for _ in range(4)] == [200] * 4
    assert _rows() == 1
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("pending", 0)
