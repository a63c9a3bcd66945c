"""A web process whose Postgres or Redis is gone says so, and loses nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dalston_queue.models import Task
from dalston_site.embedded.server import Server
from tests.support import wait_until
from tests.web import Web, environment

NOBODY_LISTENS = "1"


def without(url: str) -> str:
    """The same address on a port where nobody listens."""
    return url.replace(f":{urlsplit(url).port}", f":{NOBODY_LISTENS}")


@pytest.fixture
def start(tmp_path: Path, django_db_setup: None, transactional_db: None) -> Iterator[Callable[..., Web]]:
    started: list[Web] = []

    def make(**env: str) -> Web:
        started.append(Web({**environment(), **env}, tmp_path / "log", status=503))
        return started[-1]

    yield make
    for web in started:
        web.process.stop()
        web.process.reap()


@pytest.mark.slow
def test_without_postgres_every_answer_is_503_with_retry_after(start: Callable[..., Web]) -> None:
    web = start(DATABASE_URL=without(environment()["DATABASE_URL"]))
    with web.client("dal_any") as client:
        answer = client.post("/api/v1/tasks", json={"task_type": "echo"})
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert answer.headers["Retry-After"] == "5"
        assert "Traceback" not in answer.text
        assert client.get("/api/v1/docs").status_code == 200
        page = client.get("/", headers={"Cookie": "sessionid=somebody"})
        assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
        assert "Postgres does not answer" in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]


def test_without_redis_tasks_are_accepted_and_stored(start: Callable[..., Web], token_for: Callable[..., str]) -> None:
    web = start(REDIS_URL=without(os.environ["REDIS_URL"]))
    with web.client(token_for("submit", "read")) as client:
        task = client.post("/api/v1/tasks", json={"task_type": "echo"})
        assert task.status_code == 201, task.text
        assert client.get(task.headers["Location"]).json()["status"] == "pending"
        stats = client.get("/api/v1/queue/stats")
        assert (stats.status_code, stats.json()["code"]) == (503, "redis_unavailable")
    assert Task.objects.count() == 1


def test_while_redis_hangs_tasks_are_accepted_all_the_same(
    start: Callable[..., Web], valkey_server: Callable[..., Server], token_for: Callable[..., str]
) -> None:
    """In a moment each, and nobody waits for a connection to Postgres that another keeps while it waits for Redis."""
    redis = valkey_server()
    redis.process.send_signal(signal.SIGSTOP)
    try:
        web = start(REDIS_URL=redis.url)
        with web.client(token_for("submit", "read")) as client, ThreadPoolExecutor(40) as many:
            started = time.monotonic()
            assert client.post("/api/v1/tasks", json={"task_type": "echo"}).status_code == 201
            assert time.monotonic() - started < 4
            time.sleep(2.5)  # now it is asked again
            answers = list(many.map(lambda _: client.post("/api/v1/tasks", json={"task_type": "echo"}), range(40)))
            assert [answer.status_code for answer in answers] == [201] * 40
    finally:
        redis.process.send_signal(signal.SIGCONT)
    assert Task.objects.count() == 41


def test_while_redis_hangs_what_needs_it_says_so_soon_and_keeps_nobody_from_postgres(
    start: Callable[..., Web], valkey_server: Callable[..., Server], token_for: Callable[..., str]
) -> None:
    redis = valkey_server()
    redis.process.send_signal(signal.SIGSTOP)
    try:
        web = start(REDIS_URL=redis.url)
        with web.client(token_for("submit", "read")) as client, ThreadPoolExecutor(30) as many:
            for at_most in (4.5, 1.5):  # once it was found to hang, it is not waited for again
                started = time.monotonic()
                answers = list(many.map(lambda _: client.get("/api/v1/queue/stats"), range(30)))
                assert {answer.json()["code"] for answer in answers} == {"redis_unavailable"}
                assert time.monotonic() - started < at_most
            redis.process.send_signal(signal.SIGCONT)
            wait_until(lambda: client.get("/api/v1/queue/stats").status_code == 200, 5, "Redis is asked again")
    finally:
        redis.process.send_signal(signal.SIGCONT)
