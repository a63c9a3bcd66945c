"""/limits and the weights of projects: what is set, what is used of it, and what waits behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, OperatorAction, Project
from tests.api.conftest import Api
from tests.jobs import make

EACH = {"queue": "echo", "project": "tests", "concurrency_key": "*", "max_in_flight": 2}


@pytest.fixture
def acme(db: None) -> Project:
    return make.project("tests")


def put(api: Api, body: dict[str, Any], path: str = "/limits") -> Any:
    return api.call("PUT", path, body)


def ready(count: int, key: str | None = None) -> None:
    for _ in range(count):
        make.claim(make.single("echo", concurrency_key=key).job)


def test_a_limit_is_made_changed_shown_and_removed(operator: Api, acme: Project) -> None:
    made = put(operator, {**EACH, "reason": "a customer has two licences"})
    assert made.status_code == 201, made.content
    limit_id = made.json()["limit_id"]
    assert made.json() == {
        "limit_id": limit_id, "queue": "echo", "project": "tests", "concurrency_key": "*", "max_in_flight": 2,
        "starts_per_minute": None, "in_flight": 0, "waiting": 0, "fullest_key": None, "keys_at_limit": 0,
        "next_start_seconds": None, "changed": True,
    }  # fmt: skip
    again = put(operator, EACH)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    changed = put(operator, {**EACH, "max_in_flight": 4})
    assert (changed.status_code, changed.json()["changed"], changed.json()["max_in_flight"]) == (200, True, 4)
    assert [limit["limit_id"] for limit in operator.get("/limits").json()["items"]] == [limit_id]
    gone = operator.call("DELETE", f"/limits/{limit_id}?reason=no+more+licences")
    assert gone.json() == {"limit_id": limit_id, "scope": "queue echo, project tests, each key"}
    assert operator.call("DELETE", f"/limits/{limit_id}").status_code == 404
    rows = OperatorAction.objects.order_by("id").values_list("actor", "action", "reason")
    assert list(rows) == [
        ("token test", "limit.set", "a customer has two licences"),
        ("token test", "limit.set", ""),
        ("token test", "limit.remove", "no more licences"),
    ]


def test_what_is_used_and_what_waits_behind_it(operator: Api, acme: Project, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 32
    put(operator, EACH)
    put(operator, {"queue": "echo", "max_in_flight": 10})
    put(operator, {"project": "tests", "concurrency_key": "42", "starts_per_minute": 600})
    ready(5, "42")
    ready(1, "43")
    ready(2)
    refill(None, timezone.now())
    each, queue, key = operator.get("/limits").json()["items"]
    assert (each["in_flight"], each["fullest_key"], each["keys_at_limit"], each["waiting"]) == (2, "42", 1, 3)
    assert (queue["in_flight"], queue["waiting"], queue["fullest_key"]) == (5, 3, None)
    assert (key["in_flight"], key["waiting"], key["next_start_seconds"]) == (2, 3, 0)


def test_a_limit_of_starts_says_when_the_next_one_is(operator: Api, acme: Project) -> None:
    put(operator, {"queue": "echo", "starts_per_minute": 1})
    ready(2)
    refill(None, timezone.now())
    [limit] = operator.get("/limits").json()["items"]
    assert (limit["in_flight"], limit["waiting"]) == (1, 1)
    assert 55 < limit["next_start_seconds"] <= 60


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max_in_flight": 3}, "queue"),
        ({"queue": "echo"}, "max_in_flight"),
        ({"queue": "echo", "concurrency_key": "42", "max_in_flight": 3}, "project"),
        ({"project": "tests", "concurrency_key": "ü", "max_in_flight": 3}, "concurrency_key"),
        ({**EACH, "starts_per_minute": 60}, "starts_per_minute"),
        ({"queue": "echo", "max_in_flight": -1}, "max_in_flight"),
        ({"queue": "echo", "max_in_flite": 1}, "max_in_flite"),
    ],
)
def test_a_wrong_limit_is_refused_with_the_fields_name(
    operator: Api, acme: Project, body: dict[str, Any], field: str
) -> None:
    answer = put(operator, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.json()["errors"][0]["field"] == field
    assert answer.json()["detail"].startswith(f"{field}: ")
    assert not Limit.objects.exists() and not OperatorAction.objects.exists()


def test_a_limit_of_an_unknown_project_is_404(operator: Api) -> None:
    answer = put(operator, {"project": "nosuch", "max_in_flight": 1})
    assert (answer.status_code, answer.json()["detail"]) == (404, "project: there is no project 'nosuch'")


def test_lists_are_paged_and_filtered(operator: Api, acme: Project) -> None:
    for queue in ("a", "b", "c"):
        put(operator, {"queue": queue, "max_in_flight": 1})
    put(operator, {"project": "tests", "max_in_flight": 1})
    first = operator.get("/limits?limit=3").json()
    rest = operator.get(f"/limits?limit=3&cursor={first['next_cursor']}").json()
    assert [limit["queue"] for limit in first["items"] + rest["items"]] == ["a", "b", "c", None]
    assert rest["next_cursor"] is None
    assert [limit["queue"] for limit in operator.get("/limits?queue=b").json()["items"]] == ["b"]
    assert [limit["project"] for limit in operator.get("/limits?project=tests").json()["items"]] == ["tests"]


def test_only_operators_see_and_set_them(api: Api, acme: Project) -> None:
    for method, path in [("GET", "/limits"), ("PUT", "/limits"), ("PUT", "/projects/tests/weight")]:
        answer = api.call(method, path, EACH)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


def test_a_weight_is_set_and_shown_with_its_share(operator: Api, acme: Project, token_for: Callable[..., str]) -> None:
    ready(2)
    refill(None, timezone.now())
    done = put(operator, {"weight": 3, "reason": "three shares"}, "/projects/tests/weight")
    assert done.json() == {"project": "tests", "weight": 3, "in_flight": 2, "all_in_flight": 2, "changed": True}
    assert put(operator, {"weight": 3}, "/projects/tests/weight").json()["changed"] is False
    assert operator.get("/projects/tests/weight").json()["weight"] == 3
    assert put(operator, {"weight": 0}, "/projects/tests/weight").status_code == 422
    assert put(operator, {"weight": 2}, "/projects/nosuch/weight").status_code == 404
    row = OperatorAction.objects.get()
    assert (row.action, row.target, row.before, row.after) == (
        "project.weight", "tests", {"weight": 1}, {"weight": 3},
    )  # fmt: skip
