"""/replay_batches: make, read, undo and stop a replay batch; new parameters are validated like submissions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from dalston_queue.jobs.operator.replay_batches import run_due_batches
from dalston_queue.models import OperatorAction, ReplayBatch, Task
from tests.api.conftest import Api
from tests.api.dead_letters.test_dead_letters import dead_letter


def test_a_batch_is_made_read_and_undone(api: Api, operator: Api) -> None:
    dead_letter(api)
    body = {"filter": {"queue": "echo"}, "undo_seconds": 10, "priority": "high", "reason": "back"}
    made = operator.post("/dead_letters:replay", body)
    assert made.status_code == 202, made.content
    batch = made.json()
    assert (batch["state"], batch["matched"], batch["filter"], batch["priority"]) == (
        "waiting",
        1,
        {"queue": "echo"},
        "high",
    )
    again = operator.post("/dead_letters:replay", body)
    assert (again.status_code, again.json()) == (202, {**batch, "already_open": True})
    assert operator.get(f"/replay_batches/{batch['replay_batch_id']}").json() == batch
    assert operator.get("/replay_batches?state=waiting").json()["items"] == [batch]
    assert operator.get("/replay_batches?state=done").json()["items"] == []
    undone = operator.call("DELETE", f"/replay_batches/{batch['replay_batch_id']}?reason=oops").json()
    assert (undone["outcome"], undone["replay_batch"]["state"]) == ("undone", "undone")
    late = operator.call("DELETE", f"/replay_batches/{batch['replay_batch_id']}")
    assert (late.status_code, late.json()["code"]) == (409, "state_conflict")
    assert late.json()["detail"] == "Too late: the batch is undone by token test."
    assert [row.reason for row in OperatorAction.objects.order_by("id")] == ["back", "oops"]


def test_a_running_batch_is_stopped(api: Api, operator: Api) -> None:
    for _ in range(3):
        dead_letter(api)
    batch = operator.post("/dead_letters:replay", {"filter": {}, "rate_per_minute": 60}).json()
    run_due_batches(timezone.now())
    stopped = operator.call("DELETE", f"/replay_batches/{batch['replay_batch_id']}").json()
    assert (stopped["outcome"], stopped["replay_batch"]["replayed"]) == ("stopped", 1)
    run_due_batches(timezone.now() + timedelta(minutes=1))
    assert Task.objects.filter(status="ready").count() == 1


def test_a_dry_run_makes_no_batch(api: Api, operator: Api) -> None:
    dead_letter(api)
    answer = operator.post("/dead_letters:replay", {"filter": {}, "rate_per_minute": 1, "dry_run": True})
    assert (answer.status_code, answer.json()["matched"]) == (200, 1)
    assert not ReplayBatch.objects.exists()


def test_missing_ids_are_left_out_and_an_empty_batch_is_not_made(api: Api, operator: Api) -> None:
    dead, unknown = dead_letter(api), str(uuid4())
    for nothing in ({"ids": [unknown]}, {"filter": {"queue": "nosuch"}}):
        answer = operator.post("/dead_letters:replay", {**nothing, "undo_seconds": 10})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert not ReplayBatch.objects.exists() and not OperatorAction.objects.exists()
    batch = operator.post("/dead_letters:replay", {"ids": [unknown, dead], "undo_seconds": 10, "limit": 1}).json()
    assert batch["matched"] == 1
    assert [str(each) for each in ReplayBatch.objects.get().dead_letter_ids] == [dead]


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_new_parameters_and_priority_are_checked(api: Api, operator: Api, many: bool) -> None:
    dead = dead_letter(api)
    path = "/dead_letters:replay" if many else f"/dead_letters/{dead}/replay"
    which = {"ids": [dead]} if many else {}
    refused: list[tuple[dict[str, Any], int]] = [
        ({"parameters": {"a": "x" * 262_144}}, 413),
        ({"parameters": {"a": "\0"}}, 400),
        ({"parameters": [1]}, 422),
        ({"priority": "urgent"}, 422),
    ]
    for wrong, status in refused:
        assert operator.post(path, {**which, **wrong}).status_code == status, wrong
    assert operator.post(path, {**which, "parameters": {"a": 2}, "priority": "low"}).status_code == 200
    task = Task.objects.get()
    assert (task.status, task.parameters, task.priority, task.effective_priority) == ("ready", {"a": 2}, "low", "low")


@pytest.mark.parametrize("wrong", [{"rate_per_minute": 0}, {"undo_seconds": -1}, {"undo_seconds": 4000}, {"limit": 0}])
def test_an_invalid_batch_is_refused(operator: Api, wrong: dict[str, int]) -> None:
    assert operator.post("/dead_letters:replay", {"ids": [str(uuid4())], **wrong}).status_code == 422
