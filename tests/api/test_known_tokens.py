"""A token that was just read is not read again, and yet what happens to it counts with the next request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dalston_queue.api.auth.known_tokens import Known, KnownTokens
from dalston_queue.models import ApiToken, Job, Task
from tests.api.conftest import Api

BODY = {"task_type": "echo"}
KEY = {"Idempotency-Key": "k"}
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def known(api: Api) -> Api:
    """The first request notes the token's use, the second finds it noted. One of them has taken a key."""
    assert api.post("/tasks", BODY, **KEY).status_code == 201
    assert api.get(f"/tasks/{Task.objects.get().pk}").status_code == 200
    return api


def change(**fields: Any) -> None:
    ApiToken.objects.update(**fields)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "new"}], ids=["alone", "with-a-key"])
def test_a_submission_is_one_statement(
    known: Api, headers: dict[str, str], django_assert_num_queries: Callable[..., Any]
) -> None:
    with django_assert_num_queries(1):
        assert known.post("/tasks", BODY, **headers).status_code == 201


def test_a_look_at_a_task_is_one_statement(known: Api, django_assert_num_queries: Callable[..., Any]) -> None:
    task_id = Task.objects.get().pk
    with django_assert_num_queries(1):
        assert known.get(f"/tasks/{task_id}").status_code == 200


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
    "a-look": (lambda api: api.get(f"/tasks/{Task.objects.get().pk}"), 200),
    "a-look-at-nothing": (lambda api: api.get(f"/tasks/{NOBODY}"), 404),
}


@pytest.mark.parametrize(("ask", "status"), REQUESTS.values(), ids=REQUESTS)
def test_whatever_a_revoked_token_asks_it_hears_that_it_is_revoked(known: Api, ask: Ask, status: int) -> None:
    change(revoked_at=timezone.now())
    answer = ask(known)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_revoked")
    assert Job.objects.count() == 1


@pytest.mark.parametrize(("ask", "status"), REQUESTS.values(), ids=REQUESTS)
def test_a_token_that_was_changed_and_holds_gets_its_answer_once(known: Api, ask: Ask, status: int) -> None:
    change(name="renamed")
    assert ask(known).status_code == status
    assert Job.objects.count() == (2 if status == 201 else 1)


def test_a_scope_that_was_taken_away_is_missing_at_once_and_one_that_was_given_is_there(known: Api) -> None:
    change(scopes=["read"])
    assert known.post("/tasks", BODY).json()["code"] == "scope_missing"
    assert known.get(f"/tasks/{Task.objects.get().pk}").status_code == 200
    change(scopes=["submit", "read"])
    assert known.post("/tasks", BODY).status_code == 201


def test_a_deleted_token_is_no_token(known: Api) -> None:
    ApiToken.objects.all().delete()
    assert known.post("/tasks", BODY).json()["code"] == "token_invalid"


def test_a_token_is_known_until_it_expires_and_for_a_minute_at_most(token_for: Callable[..., str]) -> None:
    now = timezone.now()
    token_for("read", expires_at=now + timedelta(seconds=30))
    token = ApiToken.objects.get()
    tokens = KnownTokens()
    for expires_at, known_for in ((token.expires_at, 30), (None, 60)):
        token.expires_at, token.last_used_at = expires_at, now
        tokens.keep("digest", Known(token, "1"))
        assert tokens.get("digest", now + timedelta(seconds=known_for - 1))
        assert not tokens.get("digest", now + timedelta(seconds=known_for))


def test_a_token_whose_calls_are_counted_is_read_each_time(
    token_for: Callable[..., str], django_assert_num_queries: Callable[..., Any]
) -> None:
    api = Api(token_for("submit", rate_preset="limited"))
    for _ in range(2):
        api.post("/tasks", BODY)
    with django_assert_num_queries(2):
        assert api.post("/tasks", BODY).status_code == 201
