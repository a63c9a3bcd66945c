"""/dead_letters/patterns: what the dead letters of the last day have in common, of one's own project only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dalston_queue.models import DeadLetter, Project
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db


def dead(**more: Any) -> None:
    fields = {"queue": "echo", "cause": "error", "fingerprint": "f1", "created_at": timezone.now()} | more
    DeadLetter.objects.create(**fields)


def test_they_are_counted_and_each_is_a_filter_of_a_replay(api: Api, operator: Api, project: Project) -> None:
    for _ in range(2):
        dead(cause="timeout", project=project, engine_id="gpu-1.demo.0.b")
    dead(cause="rejected", retriable=False)
    found = operator.get("/dead_letters/patterns").json()
    assert (found["count"], found["retriable"], found["above"], found["is_whole"]) == (3, 2, False, True)
    wanted = {"value": "timeout", "count": 2, "retriable": 2, "above": False, "filter": {"cause": "timeout"}}
    assert found["causes"][0] == wanted
    assert found["hours"][-1]["count"] == 3
    for kind in ("causes", "queues", "nodes", "engines", "projects"):
        assert found[kind], kind
        for each in found[kind]:
            dry_run = operator.post("/dead_letters:replay", {"filter": each["filter"], "dry_run": True})
            assert dry_run.json()["matched"] == each["count"], each
            [(name, value)] = each["filter"].items()
            assert operator.get(f"/dead_letters/patterns?{name}={value}").json()["count"] == each["count"]
            assert len(operator.get(f"/dead_letters?{name}={value}").json()["items"]) == each["count"]


def test_a_token_counts_those_of_its_project_only(
    api: Api, operator: Api, project: Project, token_for: Callable[..., str]
) -> None:
    beta = Project.objects.create(name="beta")
    other = Api(token_for("read", project=beta))
    dead(project=project, engine_id="gpu-1.demo.0.b")
    dead()
    assert operator.get("/dead_letters/patterns").json()["count"] == 2
    mine = api.get("/dead_letters/patterns").json()
    assert (mine["count"], [each["value"] for each in mine["projects"]]) == (1, ["alpha"])
    theirs = other.get("/dead_letters/patterns?project=alpha").json()
    assert (theirs["count"], theirs["nodes"], theirs["projects"]) == (0, [], [])
    assert other.get("/dead_letters/patterns?node=gpu-1").json()["count"] == 0
    assert Api().get("/dead_letters/patterns").status_code == 401
    assert Api(token_for("submit")).get("/dead_letters/patterns").status_code == 403


@pytest.mark.parametrize(
    "query",
    [
        "node=" + "x" * 5000,
        "project=" + "x" * 81,
        "engine=%00",
        "node=%00",
        "project=a%00b",
        "retriable=perhaps",
        "created_after=yesterday",
        "created_after=0001-01-01T00:00:00%2B14:00",
        "created_before=9999-12-31T23:59:59-14:00",
        "nonsense=1",
        "node=(((",
        "engine=***",
        "cause=%F0%9F%92%A9",
        "queue=<script>",
        "node=%ff%fe",
    ],
)
def test_garbage_is_refused_or_finds_nothing(operator: Api, query: str) -> None:
    dead()
    answer = operator.get(f"/dead_letters/patterns?{query}")
    assert answer.status_code in (200, 422, 400), answer.content
    if answer.status_code == 200:
        assert answer.json()["count"] in (0, 1)
    for path in ("/dead_letters", "/dead_letters/groups"):
        assert operator.get(f"{path}?{query}").status_code in (200, 400, 422), path
