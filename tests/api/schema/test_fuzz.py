"""Random requests to every route: never a 500, and every error is a problem document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dalston_queue.models import Task
from tests.api.auth.test_auth import SCOPES
from tests.api.conftest import Api
from tests.api.documented import ROUTES

if TYPE_CHECKING:
    from tests.api.conftest import Response

FEW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
NAMES = st.sampled_from([
    "task_type", "stage", "stages", "queue", "priority", "parameters", "required_capabilities", "timeout_seconds",
    "max_retries", "scheduled_at", "idempotency_key", "name", "pipeline", "after", "weight", "required", "jobs", "ids",
    "filter", "dry_run", "limit", "reason", "cause", "error", "cursor", "status", "payload", "wait", "offset", "order",
])  # fmt: skip
WORDS = st.sampled_from(
    ["echo", "high", "", "a" * 65, "2030-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "-1", "é\u0000"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
        max_leaves=8,
    )


VALUES = nested(SCALARS)
# Postgres keeps numbers as decimals: a float past 2**53 comes back as the integer that it was written as.
EXACT = nested(st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=20) | WORDS)
BODIES = st.dictionaries(NAMES, VALUES, max_size=6) | VALUES
QUERIES = st.dictionaries(NAMES, SCALARS, max_size=4)
IDS = st.uuids() | st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@pytest.fixture
def everything(token_for: Callable[..., str]) -> Api:
    return Api(token_for(*SCOPES))


def check(answer: Response) -> None:
    assert answer.status_code < 500, answer.content
    if answer.status_code >= 400:
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    else:
        answer.json()


def address(path: str, row_id: UUID | str, query: dict[str, Any]) -> str:
    from urllib.parse import quote, urlencode

    return f"{re.sub(r'{.*?}', quote(str(row_id)), path)}?{urlencode(query)}"


def test_every_name_in_a_route_gets_a_value() -> None:
    assert not [path for _, path in ROUTES if "{" in address(path, "1", {})]


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES), ids=lambda part: part)
def test_no_route_breaks(everything: Api, method: str, path: str) -> None:
    @FEW
    @given(IDS, QUERIES, BODIES)
    def ask(row_id: UUID | str, query: dict[str, Any], body: Any) -> None:
        query.pop("wait", None)  # waiting would only take time
        raw = json.dumps(body).encode() if method in {"POST", "PUT"} else b""
        check(everything.call(method, address(path, row_id, query), raw=raw))

    ask()


@FEW
@given(st.binary(max_size=200))
def test_no_bytes_break_a_submission(everything: Api, raw: bytes) -> None:
    check(everything.call("POST", "/tasks", raw=raw))


@FEW
@given(st.dictionaries(st.text(max_size=10), EXACT, max_size=5))
def test_what_is_accepted_comes_back_as_it_was_sent(everything: Api, parameters: dict[str, Any]) -> None:
    answer = everything.post("/tasks", {"task_type": "echo", "parameters": parameters})
    check(answer)
    if answer.status_code == 201:
        stored = Task.objects.get(pk=answer.json()["task_id"]).parameters
        assert stored == answer.json()["parameters"] == json.loads(json.dumps(parameters))


@pytest.mark.parametrize("header", ["Idempotency-Key", "traceparent", "Authorization"])
def test_no_header_breaks_a_request(everything: Api, header: str) -> None:
    for value in ("", " ", "\u00e9", "a" * 5000, "Bearer", "Bearer  ", "00-zz-zz-zz", "Bearer \u00ff"):
        check(everything.call("POST", "/tasks", {"task_type": "echo"}, None, **{header: value}))


def test_no_cookie_breaks_a_request(db: None) -> None:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = "\u0000nonsense"
    check(Api(client=client).get("/tasks"))
