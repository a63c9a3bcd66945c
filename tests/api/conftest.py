"""Fixtures of the API's tests: a project, tokens, and a client that speaks JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dalston_queue.broker import Broker, connect
from dalston_queue.models import ApiToken, Project
from tests.web import Web

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse

    Response = _MonkeyPatchedWSGIResponse  # the stubs' name for one with .json()


class Api:
    """The API in this process, through Django's whole middleware."""

    def __init__(self, token: str | None = None, client: Client | None = None) -> None:
        self.token = token
        self.client = client or Client(raise_request_exception=False)

    def call(self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: Any) -> Response:
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(method, f"/api/v1{path}", data, content_type="application/json", headers=headers)

    def post(self, path: str, body: Any = None, **headers: Any) -> Response:
        return self.call("POST", path, {} if body is None else body, **headers)

    def get(self, path: str, **headers: Any) -> Response:
        return self.call("GET", path, **headers)


@pytest.fixture(autouse=True)
def own_broker(request: pytest.FixtureRequest, broker: Broker) -> Broker:
    """Each test has a key prefix of its own; keys that it leaves are deleted and are no failure."""
    request.node.add_marker(pytest.mark.keeps_keys)
    return broker


@pytest.fixture
def web_broker(web: Web, redis_url: str) -> Iterator[Broker]:
    """A broker on the keys of the web process."""
    broker = connect(redis_url, prefix=web.prefix)
    yield broker
    broker.close()


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="alpha")


@pytest.fixture
def token_for(project: Project) -> Callable[..., str]:
    """Makes a token with these scopes and returns its text."""

    def make(*scopes: str, project: Project = project, name: str = "test", **fields: Any) -> str:
        return ApiToken.issue(project, name, scopes, **fields)[1]

    return make


@pytest.fixture
def api(token_for: Callable[..., str]) -> Api:
    return Api(token_for("submit", "read"))


@pytest.fixture
def operator(token_for: Callable[..., str]) -> Api:
    return Api(token_for("operate", "read"))


@pytest.fixture
def admin_user(db: None) -> User:
    """Without a password: hashing one takes longer than most tests."""
    return User.objects.create_superuser("admin", password=None)
