"""Changes of a token take effect with the next request; each request reads its token once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dalston_queue.models import ApiToken, Job, Task
from tests.api.conftest import Api
from tests.api.documented import MISSING

BODY = {"task_type": "echo"}
KEY = {"Idempotency-Key": "k"}


@pytest.fixture
def used(api: Api) -> Api:
    """A token whose time of last use is stored, and which has used a key."""
    assert api.post("/tasks", BODY, **KEY).status_code == 201
    assert api.get(f"/tasks/{Task.objects.get().pk}").status_code == 200
    return api


def change(**fields: Any) -> None:
    ApiToken.objects.update(**fields)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "new"}], ids=["alone", "with-a-key"])
def test_a_submission_is_two_statements(
    used: Api, headers: dict[str, str], django_assert_num_queries: Callable[..., Any]
) -> None:
    with django_assert_num_queries(2):
        assert used.post("/tasks", BODY, **headers).status_code == 201


def test_reading_a_task_is_two_statements(used: Api, django_assert_num_queries: Callable[..., Any]) -> None:
    task_id = Task.objects.get().pk
    with django_assert_num_queries(2):
        assert used.get(f"/tasks/{task_id}").status_code == 200


Ask = Callable[[Api], Any]
JOB = {"name": "a", "stages": [{"stage": "a"}, {"stage": "b"}]}
REQUESTS: dict[str, tuple[Ask, int]] = {
    "a-task": (lambda api: api.post("/tasks", BODY), 201),
    "a-task-with-a-key": (lambda api: api.post("/tasks", BODY, **{"Idempotency-Key": "new"}), 201),
    "a-job": (lambda api: api.post("/jobs", JOB), 201),
    "a-repeat": (lambda api: api.post("/tasks", BODY, **KEY), 200),
    "a-key-of-another-request": (lambda api: api.post("/tasks", {"task_type": "sleep"}, **KEY), 409),
    "no-json": (lambda api: api.call("POST", "/tasks", raw=b"{"), 400),
    "not-valid": (lambda api: api.post("/tasks", {"task_type": "Not A Name"}), 422),
    "too-large": (lambda api: api.call("POST", "/tasks", raw=b" " * 300_000), 413),
    "a-read": (lambda api: api.get(f"/tasks/{Task.objects.get().pk}"), 200),
    "a-read-of-a-missing-task": (lambda api: api.get(f"/tasks/{MISSING}"), 404),
}


@pytest.mark.parametrize(("ask", "status"), REQUESTS.values(), ids=REQUESTS)
def test_every_request_of_a_revoked_token_is_refused(used: Api, ask: Ask, status: int) -> None:
    change(revoked_at=timezone.now())
    answer = ask(used)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_revoked")
    assert Job.objects.count() == 1


@pytest.mark.parametrize(("ask", "status"), REQUESTS.values(), ids=REQUESTS)
def test_a_renamed_token_works_as_before(used: Api, ask: Ask, status: int) -> None:
    change(name="renamed")
    assert ask(used).status_code == status
    assert Job.objects.count() == (2 if status == 201 else 1)


def test_removed_and_added_scopes_count_at_once(used: Api) -> None:
    change(scopes=["read"])
    assert used.post("/tasks", BODY).json()["code"] == "scope_missing"
    assert used.get(f"/tasks/{Task.objects.get().pk}").status_code == 200
    change(scopes=["submit", "read"])
    assert used.post("/tasks", BODY).status_code == 201


def test_a_deleted_token_is_no_token(used: Api) -> None:
    ApiToken.objects.all().delete()
    assert used.post("/tasks", BODY).json()["code"] == "token_invalid"
