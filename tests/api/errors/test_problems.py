"""Every error is a problem document, and a 500 shows nothing but its trace id."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client

from dalston_queue.api import api as routes
from dalston_queue.api.errors.problems import TITLES, Code
from dalston_queue.api.routes import tasks
from dalston_queue.models import Task
from tests.api.conftest import Api
from tests.conftest import ROOT

DOCS = ROOT / "docs" / "api.md"


@pytest.mark.parametrize(("method", "path", "status", "code"), [
    ("GET", "/nothing", 404, "not_found"),
    ("GET", "/tasks/", 404, "not_found"),
    ("PUT", "/tasks", 405, "method_not_allowed"),
    ("POST", "/tasks", 401, "unauthenticated"),
])  # fmt: skip
def test_errors_around_and_inside_routes_look_alike(db: None, method: str, path: str, status: int, code: str) -> None:
    answer = Api().call(method, path)
    body = answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert body["type"] == f"urn:dalston:problem:{code}"
    assert body["trace_id"] == answer["X-Trace-Id"]
    assert body["instance"] == f"/api/v1{path}"
    if status == 405:
        assert set(answer["Allow"].split(", ")) == {"GET", "POST"}


def test_a_refused_host_is_a_problem_document_too(db: None) -> None:
    answer = Api(client=Client(SERVER_NAME="evil.example")).get("/tasks/17")
    assert (answer.status_code, answer.json()["code"]) == (400, "request_refused")


def test_a_500_hides_everything_but_the_trace_id(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object, **__: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(tasks, "submit", burst)
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert b"hunter2" not in answer.content
    assert b"RuntimeError" not in answer.content
    assert answer.json()["trace_id"] == answer["X-Trace-Id"]


def test_a_database_that_does_not_answer_is_503_with_retry_after(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(tasks, "submit", refuse)
    answer = api.post("/tasks", {"task_type": "echo"})
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert answer["Retry-After"] == "5"


def test_every_code_has_a_title_and_a_line_in_the_docs() -> None:
    assert set(TITLES) == set(Code)
    text = DOCS.read_text()
    assert [code for code in Code if f"`{code}`" not in text] == []


def test_the_docs_page_loads_nothing_from_elsewhere(client: Client, db: None) -> None:
    page = client.get("/api/v1/docs")
    assert page.status_code == 200
    assert b"http://" not in page.content
    assert b"https://" not in page.content
    assert b"/static/ninja/swagger-ui-bundle.js" in page.content
    schema = client.get("/api/v1/openapi.json").json()
    assert "/api/v1/tasks" in schema["paths"]


def test_the_openapi_document_is_cached(client: Client, db: None) -> None:
    """The route needs no token, and building the document takes half a second of CPU."""
    first, second = (routes.api.get_openapi_schema() for _ in range(2))
    assert first is second
    assert client.get("/api/v1/openapi.json").json()["paths"].keys() == first["paths"].keys()


@pytest.mark.parametrize(("method", "path", "field"), [
    ("GET", "/dead_letters?priority=high", "priority"),
    ("GET", "/streams?paused=true", "paused"),
    ("POST", "/tasks?wait=0&wiat=5", "wiat"),
])  # fmt: skip
def test_an_unknown_query_parameter_is_refused(api: Api, method: str, path: str, field: str) -> None:
    """A misspelt filter would match everything. Without a token the answer does not name the parameters."""
    answer = api.call(method, path, {"task_type": "echo"} if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not Task.objects.exists()
    assert Api().call(method, path).status_code == 401


def test_a_repeated_query_parameter_is_refused(api: Api) -> None:
    """Otherwise the last of two filters would win."""
    answer = api.get("/tasks?status=queued&limit=5&status=running")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert [(error["field"], error["kind"]) for error in answer.json()["errors"]] == [("status", "repeated")]
