"""/dead_letters: list, group, replay by id or by filter, discard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from dalston_queue.jobs.queries import search
from dalston_queue.models import DeadLetter, Job, OperatorAction, Project, Task
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)


def dead_letter(api: Api, error: str = "boom", fingerprint: str = "f1", queue: str = "echo") -> str:
    """The dead letter of a task of this client, as the orchestrator makes it."""
    task = Task.objects.get(pk=api.post("/tasks", {"task_type": queue, "parameters": {"n": 1}}).json()["task_id"])
    now = timezone.now()
    Job.objects.filter(pk=task.job_id).update(status="failed", finished_at=now)
    Task.objects.filter(pk=task.pk).update(status="dead_letter", finished_at=now, retry_count=3)
    letter = DeadLetter.objects.create(
        task=task, queue=queue, task_type=queue, cause="error", error=error, fingerprint=fingerprint, created_at=now
    )
    return str(letter.pk)


def test_a_project_sees_its_own_and_an_operator_all(api: Api, operator: Api, token_for: Callable[..., str]) -> None:
    other = Api(token_for("submit", "read", project=Project.objects.create(name="beta")))
    dead_letter(api)
    dead_letter(other)
    DeadLetter.objects.create(queue="echo", cause="rejected", fingerprint="raw", created_at=timezone.now())
    assert len(api.get("/dead_letters").json()["items"]) == 1
    assert len(operator.get("/dead_letters").json()["items"]) == 3
    assert len(operator.get("/dead_letters?cause=rejected").json()["items"]) == 1


def test_one_is_shown_to_its_project_and_to_operators_also_when_it_is_closed(
    api: Api, operator: Api, token_for: Callable[..., str]
) -> None:
    letter = dead_letter(api)
    other = Api(token_for("read", project=Project.objects.create(name="beta")))
    assert api.get(f"/dead_letters/{letter}").json()["error"] == "boom"
    assert other.get(f"/dead_letters/{letter}").status_code == 404
    assert operator.call("DELETE", f"/dead_letters/{letter}").json()["discarded"]
    assert operator.get(f"/dead_letters/{letter}").json()["discarded_at"] is not None


def test_one_is_shown_with_its_traceback_and_raw_fields_and_a_list_without(api: Api, operator: Api) -> None:
    letter = dead_letter(api)
    DeadLetter.objects.filter(pk=letter).update(traceback="Traceback …", raw={"t": {"base64": "AP8="}})
    one, [listed] = operator.get(f"/dead_letters/{letter}").json(), operator.get("/dead_letters").json()["items"]
    assert (one["traceback"], one["raw"]) == ("Traceback …", {"t": {"base64": "AP8="}})
    assert (listed["traceback"], listed["raw"]) == (None, None)
    assert {**one, "traceback": None, "raw": None} == listed


def test_it_is_replayed_by_the_id_of_its_task_as_well(api: Api, operator: Api) -> None:
    letter, task = dead_letter(api), Task.objects.get()
    done = operator.post(f"/dead_letters/{task.id}/replay", {"reason": "again"})
    assert (done.status_code, done.json()["dead_letter_id"], done.json()["outcome"]) == (200, letter, "replayed")
    again = operator.post(f"/dead_letters/{task.id}/replay", {})
    assert (again.status_code, again.json()["outcome"], again.json()["attempt"]) == (200, "already replayed", 2)
    assert operator.post(f"/dead_letters/{uuid4()}/replay", {}).status_code == 404


def test_the_words_of_the_first_design_are_understood(api: Api, operator: Api) -> None:
    dead_letter(api)
    task = Task.objects.get()
    body = {"reset_retry_count": True, "new_priority": "high"}
    assert operator.post(f"/dead_letters/{task.id}/replay", body).status_code == 200
    task.refresh_from_db()
    assert (task.priority, task.retry_count, task.attempt) == ("high", 0, 2)


def test_a_replay_may_keep_the_retries_that_were_used(api: Api, operator: Api) -> None:
    letter = dead_letter(api)
    assert operator.post(f"/dead_letters/{letter}/replay", {"reset_retry_count": False}).status_code == 200
    task = Task.objects.get()
    assert (task.status, task.retry_count) == ("ready", 3)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/dead_letters/{letter}/replay", {"priority": "low", "new_priority": "high"}),
        ("/dead_letters:replay", {"filter": {}, "reset_retry_count": False, "undo_seconds": 5}),
        ("/dead_letters/{letter}/replay", {"reset_retry_count": "no"}),
        ("/dead_letters/{letter}/replay", {"new_priority": "urgent"}),
    ],
)
def test_what_contradicts_itself_is_refused(api: Api, operator: Api, path: str, body: dict[str, Any]) -> None:
    letter = dead_letter(api)
    assert operator.post(path.format(letter=letter), body).status_code == 422
    assert Task.objects.get().status == "dead_letter"


def test_a_search_that_takes_too_long_is_refused(api: Api, operator: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter(api)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM dalston_dead_letter")  # the connection is there, and fast
    # The lock blocks the search, as a hundred million rows would.
    with psycopg.connect(**_server()) as other, monkeypatch.context() as patch:
        patch.setattr(search, "SEARCH_TIMEOUT_MS", 50)
        other.execute("LOCK TABLE dalston_dead_letter IN ACCESS EXCLUSIVE MODE")
        everything: dict[str, Any] = {"filter": {"queue": "echo"}}
        answers = [
            api.get("/dead_letters/groups"),
            operator.post("/dead_letters:replay", {**everything, "dry_run": True}),
            operator.post("/dead_letters:replay", everything),
            operator.post("/dead_letters:replay", {**everything, "undo_seconds": 60}),
        ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (422, "search_too_wide"), answer.content
        assert "name a queue, a cause or a time" in answer.json()["detail"]
    assert len(api.get("/dead_letters/groups").json()) == 1


def _server() -> dict[str, Any]:
    database = connection.settings_dict
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
    return {name: database[key] for name, key in names.items()}


def test_dead_letters_are_grouped_by_fingerprint(api: Api) -> None:
    for error in ("boom 1", "boom 2"):
        dead_letter(api, error)
    dead_letter(api, "other", "f2", "sleep")
    groups = api.get("/dead_letters/groups").json()
    assert [(group["fingerprint"], group["count"]) for group in groups] == [("f1", 2), ("f2", 1)]
    assert [group["fingerprint"] for group in api.get("/dead_letters/groups?queue=sleep").json()] == ["f2"]
    assert [item["error"] for item in api.get("/dead_letters?error=BOOM&limit=1").json()["items"]] == ["boom 2"]


def test_a_replay_runs_the_same_task_again_and_is_safe_to_repeat(api: Api, operator: Api) -> None:
    letter = dead_letter(api)
    body = {"parameters": {"n": 2}, "priority": "high", "reason": "file is back"}
    first = operator.post(f"/dead_letters/{letter}/replay", body)
    assert first.status_code == 200, first.content
    assert (first.json()["outcome"], first.json()["attempt"]) == ("replayed", 2)
    assert operator.post(f"/dead_letters/{letter}/replay").json()["outcome"] == "already replayed"
    task = Task.objects.get()
    assert (task.status, task.attempt, task.retry_count, task.parameters) == ("ready", 2, 0, {"n": 2})
    action = OperatorAction.objects.order_by("id")[0]
    assert (action.action, action.target, action.reason) == ("dead_letter.replay", letter, "file is back")
    assert action.after == {letter: "replayed"}


def test_replay_all_that_match_after_a_dry_run(api: Api, operator: Api) -> None:
    letters = {dead_letter(api) for _ in range(3)}
    dead_letter(api, queue="sleep")
    dry = operator.post("/dead_letters:replay", {"filter": {"queue": "echo"}, "dry_run": True}).json()
    assert dry == {"matched": 3, "replayed": 0, "items": []}
    assert not Task.objects.filter(status="ready").exists()
    done = operator.post("/dead_letters:replay", {"filter": {"queue": "echo"}}).json()
    assert (done["matched"], done["replayed"]) == (3, 3)
    assert {item["dead_letter_id"] for item in done["items"]} == letters
    assert operator.post("/dead_letters:replay", {"filter": {"queue": "echo"}, "dry_run": True}).json()["matched"] == 0


def test_a_dry_run_counts_what_a_replay_would_replay(api: Api, operator: Api) -> None:
    """Open dead letters, each once, and no more than the limit."""
    letters = [dead_letter(api) for _ in range(3)]
    operator.call("DELETE", f"/dead_letters/{letters[0]}")

    def counted(**wanted: Any) -> int:
        return int(operator.post("/dead_letters:replay", {**wanted, "dry_run": True}).json()["matched"])

    assert counted(ids=[str(uuid4())]) == 0
    assert counted(ids=[*letters, letters[1], str(uuid4())]) == 2
    assert counted(ids=letters, limit=1) == 0, "the first of them is closed, and the others are past the limit"
    assert counted(ids=letters, limit=2) == 1
    assert counted(filter={"queue": "echo"}, limit=1) == 1
    assert counted(filter={"queue": "echo"}, limit=10) == 2
    done = operator.post("/dead_letters:replay", {"ids": letters[1:], "limit": 1}).json()
    assert (done["matched"], [item["dead_letter_id"] for item in done["items"]]) == (1, letters[1:2])


def test_replay_by_ids_answers_for_each(api: Api, operator: Api) -> None:
    letter, unknown = dead_letter(api), str(uuid4())
    done = operator.post("/dead_letters:replay", {"ids": [letter, unknown]}).json()
    assert [item["outcome"] for item in done["items"]] == ["replayed", "there is no such dead letter"]
    assert operator.post("/dead_letters:replay", {}).status_code == 422


def test_a_discarded_dead_letter_is_closed(api: Api, operator: Api) -> None:
    letter = dead_letter(api)
    assert operator.call("DELETE", f"/dead_letters/{letter}?reason=old").json()["discarded"] is True
    assert operator.call("DELETE", f"/dead_letters/{letter}").json()["discarded"] is False
    assert api.get("/dead_letters").json()["items"] == []
    answer = operator.post(f"/dead_letters/{letter}/replay")
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
    assert Task.objects.get().status == "dead_letter"
