"""GET /tasks/{id}: fields, history, and which principals see a task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.models import Project, Task, TaskEvent
from tests.api.conftest import Api
from tests.orchestrator.support import Steps, engine


@pytest.fixture
def task_id(api: Api) -> str:
    made: str = api.post("/tasks", {"task_type": "echo", "parameters": {"n": 1}}).json()["task_id"]
    return made


def test_the_owner_reads_it(api: Api, task_id: str) -> None:
    body = api.get(f"/tasks/{task_id}").json()
    assert (body["task_id"], body["status"], body["result"], body["error"]) == (task_id, "pending", None, None)
    assert body["history"] is None


def test_its_key_its_time_in_its_state_and_its_progress(api: Api, broker: Broker) -> None:
    task_id = api.post("/tasks", {"task_type": "echo", "idempotency_key": "k1"}).json()["task_id"]
    at = timezone.now() - timedelta(seconds=45)
    moves = [("start", "queued", "running", at), ("start", "running", "running", timezone.now())]
    for transition, was, to, when in moves:
        TaskEvent.objects.create(
            task_id=task_id, transition=transition, from_status=was, to_status=to, attempt=1, deliveries=0, at=when
        )
    Task.objects.filter(pk=task_id).update(status="running", started_at=at)
    [listed] = api.get("/tasks").json()["items"]
    for shown in (api.get(f"/tasks/{task_id}").json(), listed):
        assert (shown["idempotency_key"], shown["cancelled_at"], shown["progress"]) == ("k1", None, None)
        assert 45 <= shown["current_state_seconds"] < 60, "moves within a state don't count"


def test_progress_is_what_its_engine_reports(api: Api, broker: Broker) -> None:
    task_id = api.post("/tasks", {"task_type": "echo"}).json()["task_id"]
    Steps(broker).poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        claimed.progress({"fraction": 0.25, "message": "a quarter"})
        Task.objects.filter(pk=task_id).update(status="running", started_at=timezone.now())
        [listed] = api.get("/tasks").json()["items"]
        assert (api.get(f"/tasks/{task_id}").json()["progress"], listed["progress"]) == (0.25, 0.25)
        claimed.settle(Completed(1))
        Steps(broker).drain()
    done = api.get(f"/tasks/{task_id}").json()
    assert done["progress"] == 1.0
    assert done["created_at"] < done["started_at"] <= done["completed_at"]


def test_a_cancelled_task_says_when(api: Api, task_id: str) -> None:
    api.call("DELETE", f"/tasks/{task_id}")
    shown = api.get(f"/tasks/{task_id}").json()
    assert shown["status"] == "cancelled"
    assert shown["cancelled_at"] == shown["completed_at"] is not None


def test_history_is_there_on_request(api: Api, task_id: str) -> None:
    TaskEvent.objects.create(
        task_id=task_id,
        transition="make_ready",
        from_status="pending",
        to_status="ready",
        attempt=1,
        deliveries=0,
        at="2030-01-01T00:00:00Z",
    )
    [event] = api.get(f"/tasks/{task_id}?include_history=true").json()["history"]
    assert (event["transition"], event["to_status"]) == ("make_ready", "ready")


def test_another_project_sees_nothing_and_an_operator_sees_all(
    task_id: str, token_for: Callable[..., str], admin_client: Client
) -> None:
    other = Project.objects.create(name="beta")
    answer = Api(token_for("read", "submit", project=other)).get(f"/tasks/{task_id}")
    unknown = Api(token_for("read")).get(f"/tasks/{uuid4()}")
    assert answer.status_code == unknown.status_code == 404
    assert answer.json()["detail"].replace(task_id, "") == unknown.json()["detail"].replace(
        unknown.request["PATH_INFO"][-36:], ""
    )
    assert Api(token_for("read", "operate", project=other)).get(f"/tasks/{task_id}").status_code == 200
    assert Api(client=admin_client).get(f"/tasks/{task_id}").status_code == 200


def test_an_invalid_id_is_refused(api: Api) -> None:
    answer = api.get("/tasks/17")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_one_query_for_the_token_and_one_for_the_task(
    api: Api, task_id: str, django_assert_num_queries: Callable[..., object]
) -> None:
    with django_assert_num_queries(2):  # type: ignore[attr-defined]
        api.get(f"/tasks/{task_id}")
