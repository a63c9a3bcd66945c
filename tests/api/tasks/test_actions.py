"""POST /tasks/{id}/requeue and /dead_letter: their effect, repeats, conflicts and audit rows."""

from __future__ import annotations

import pytest
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.models import OperatorAction, Task
from dalston_queue.orchestrator.loop import poll
from tests.api.conftest import Api
from tests.orchestrator.support import engine

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def task(api: Api) -> Task:
    task_id = api.post("/tasks", {"task_type": "echo"}).json()["task_id"]
    while poll():
        pass
    return Task.objects.get(pk=task_id)


def test_a_running_task_is_requeued_once(operator: Api, task: Task, broker: Broker) -> None:
    with engine(broker, name="slow") as slow, engine(broker, name="other") as other:
        [claimed] = slow.claim()
        body = {"reason": "it hangs", "entry_id": claimed.entry_id}
        first = operator.post(f"/tasks/{task.id}/requeue", body)
        assert (first.status_code, first.json()["changed"]) == (200, True)
        assert operator.post(f"/tasks/{task.id}/requeue", body).json()["changed"] is False
        [again] = other.claim()
        late = operator.post(f"/tasks/{task.id}/requeue", body)
        assert (late.status_code, late.json()["code"]) == (409, "state_conflict")
        assert again.task_id == str(task.id)
    rows = OperatorAction.objects.filter(action="task.requeue", target=str(task.id)).order_by("id")
    assert [row.after["outcome"] for row in rows] == ["returned", "waiting", "changed"]
    assert {row.reason for row in rows} == {"it hangs"}


def test_a_waiting_task_becomes_a_dead_letter_once(operator: Api, task: Task) -> None:
    assert operator.post(f"/tasks/{task.id}/dead_letter", {}).status_code == 422
    assert operator.post(f"/tasks/{task.id}/dead_letter", {"reason": "x", "attempt": 9}).status_code == 409
    first = operator.post(f"/tasks/{task.id}/dead_letter", {"reason": "broken file"})
    assert (first.status_code, first.json()["status"], first.json()["changed"]) == (200, "dead_letter", True)
    again = operator.post(f"/tasks/{task.id}/dead_letter", {"reason": "broken file"})
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert operator.get("/dead_letters").json()["items"][0]["error"] == "dead-lettered by token test: broken file"
    assert operator.post(f"/tasks/{task.id}/requeue").status_code == 409


def test_a_task_that_has_ended_otherwise_is_a_conflict(operator: Api, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(status="completed", finished_at=timezone.now())
    answer = operator.post(f"/tasks/{task.id}/dead_letter", {"reason": "x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
