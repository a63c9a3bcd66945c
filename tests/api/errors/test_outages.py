"""A web process without Postgres or Redis: 503 soon, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection as to_postgres
from django.db import transaction
from psycopg import OperationalError
from redis import Redis
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket
from websockets.typing import Origin

from dalston_queue.broker import Delivery, connect
from dalston_queue.broker.protocol.messages import Completed, Outcome
from dalston_queue.models import Task
from dalston_queue.redis import WEB_TIMEOUT_S
from dalston_site.embedded.server import Server
from dalston_site.postgres import base as postgres
from tests.api.errors.freezing import FreezingProxy
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import WAIT_TIMEOUT_S, Spawned, wait_until
from tests.web import Web, environment


def without(url: str) -> str:
    """The same address with a port on which no server listens."""
    return url.replace(f":{urlsplit(url).port}", ":1")


@pytest.fixture
def start(tmp_path: Path, django_db_setup: None, transactional_db: None) -> Iterator[Callable[..., Web]]:
    started: list[Web] = []

    def make(status: int = 503, **env: str) -> Web:
        started.append(Web({**environment(), **env}, tmp_path / "log", status=status))
        return started[-1]

    yield make
    for web in started:
        web.process.stop()
        web.process.reap()


def open_live_page(web: Web, browser: httpx.Client, job: str) -> ClientConnection:
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid']}"}
    return open_socket(f"ws://127.0.0.1:{web.port}/ws/jobs/{job}/", origin=Origin(web.url), additional_headers=cookie)


def a_statement_waits_for_a_lock(cursor: Any) -> bool:
    cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
    return cursor.fetchone() is not None


@pytest.mark.slow
def test_without_postgres_every_answer_is_503_with_retry_after(start: Callable[..., Web]) -> None:
    web = start(DATABASE_URL=without(environment()["DATABASE_URL"]))
    with web.client("dal_any") as client:
        answer = client.post("/api/v1/tasks", json={"task_type": "echo"})
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert answer.headers["Retry-After"] == "5"
        assert "Traceback" not in answer.text
        assert client.get("/api/v1/docs").status_code == 200
        page = client.get("/", headers={"Cookie": "sessionid=anything"})
        assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
        assert "Postgres does not answer" in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]


def test_while_postgres_hangs_pages_and_the_api_answer_503_soon(
    start: Callable[..., Web], token_for: Callable[..., str]
) -> None:
    """Also over connections that were open before. A statement that was sent before is still executed, and the answer
    says so."""
    ada = User.objects.create_superuser("ada", password=None)
    proxy = FreezingProxy(environment()["DATABASE_URL"])
    task = {"task_type": "echo", "idempotency_key": "k"}
    try:
        web = start(200, DATABASE_URL=proxy.url)
        with web.log_in(ada) as browser, web.client(token_for("submit", "read")) as client:
            job = client.post("/api/v1/tasks", json={"task_type": "other"}).json()["job_id"]
            with open_live_page(web, browser, job) as viewer, ThreadPoolExecutor(20) as many:
                viewer.recv(timeout=WAIT_TIMEOUT_S)
                before = list(many.map(lambda _: client.get("/api/v1/tasks"), range(20)))  # the pool fills up
                assert {answer.status_code for answer in before} == {200} == {browser.get("/").status_code}
                with transaction.atomic(), to_postgres.cursor() as cursor:
                    cursor.execute("LOCK TABLE dalston_job IN EXCLUSIVE MODE")
                    waiting = many.submit(client.post, "/api/v1/tasks", json=task)
                    wait_until(lambda: a_statement_waits_for_a_lock(cursor), what="its statement has arrived")
                    proxy.freeze()
                started = time.monotonic()
                unknown = waiting.result()
                assert (unknown.status_code, "may still be executed" in unknown.json()["detail"]) == (503, True)
                pages = list(many.map(lambda _: browser.get("/"), range(12)))
                answers = list(many.map(lambda _: client.get("/api/v1/tasks"), range(8)))
            assert time.monotonic() - started < 7, "and later requests do not wait again"
            assert {page.status_code for page in pages} == {answer.status_code for answer in answers} == {503}
            assert all("Postgres does not answer" in page.text for page in pages)
            assert {answer.json()["code"] for answer in answers} == {"database_unavailable"}
            with pytest.raises(InvalidStatus), open_live_page(web, browser, job):
                pass
            proxy.thaw()
            wait_until(lambda: browser.get("/").status_code == 200, what="Postgres is asked again")
            assert client.post("/api/v1/tasks", json=task).status_code == 200, "it had been stored"
        assert "Traceback" not in web.process.output, "an outage is expected"
    finally:
        proxy.close()


def test_a_slow_query_is_fine_while_postgres_answers_other_connections(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "SUSPECT_S", 0.1)
    proxy = FreezingProxy(database_url)
    try:
        with postgres.GuardedConnection.connect(proxy.url) as slow:
            assert slow.execute("SELECT 1 FROM pg_sleep(0.8)").fetchone() == (1,)
            proxy.freeze()
            with pytest.raises(OperationalError, match="Postgres hangs"):
                slow.execute("SELECT 1")
            assert slow.closed
    finally:
        proxy.close()


def test_without_redis_tasks_are_accepted_and_stored(start: Callable[..., Web], token_for: Callable[..., str]) -> None:
    web = start(REDIS_URL=without(os.environ["REDIS_URL"]))
    with web.client(token_for("submit", "read")) as client:
        task = client.post("/api/v1/tasks", json={"task_type": "echo"})
        assert task.status_code == 201, task.text
        assert client.get(task.headers["Location"]).json()["status"] == "pending"
        stats = client.get("/api/v1/queue/stats")
        assert (stats.status_code, stats.json()["code"]) == (503, "redis_unavailable")
    assert Task.objects.count() == 1


def test_without_redis_the_answers_say_what_is_unknown(
    start: Callable[..., Web], token_for: Callable[..., str]
) -> None:
    """Progress is marked as unknown, and a pause says that no engine was notified."""
    task = make.single()
    make.claim(task.job)
    make.move("enqueue", [task])
    make.move("start", [task], seq=1, engine_id="n.demo.0.b")
    waiting = {"name": "x", "stages": [{"stage": "echo"}]}
    web = start(REDIS_URL=without(os.environ["REDIS_URL"]))
    with web.client(token_for("submit", "read", "operate")) as client:
        [shown] = client.get(f"/api/v1/jobs/{task.job_id}").json()["tasks"]
        assert (shown["status"], shown["progress"], shown["progress_known"]) == ("running", None, False)
        [other] = client.post("/api/v1/jobs", json=waiting).json()["tasks"]
        assert (other["progress"], other["progress_known"]) == (0, True), "Postgres knows that"
        why = client.get(f"/api/v1/tasks/{other['task_id']}/why").json()
        assert why["code"] == "redis_unavailable", "not that an orchestrator is missing"
        with client.stream("GET", f"/api/v1/jobs/{task.job_id}/events") as stream:
            progress = next(each for each in stream.iter_lines() if each.startswith("data: ") and '"tasks"' in each)
        assert '"progress_known":false' in progress
        for action, paused in (("pause", True), ("resume", False)):
            answer = client.post(f"/api/v1/streams/echo/{action}", json={})
            assert (answer.status_code, answer.json()) == (
                200,
                {"queue": "echo", "paused": paused, "changed": True, "engines_notified": False},
            )


def test_a_key_used_while_redis_was_away_is_the_same_task_after_it_is_back_empty(
    start: Callable[..., Web],
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
    valkey_server: Callable[..., Server],
    token_for: Callable[..., str],
) -> None:
    """Idempotency is in Postgres: the task runs once, and a repeated request gets it."""
    redis = valkey_server()
    env = {**process_env, "REDIS_URL": redis.url}
    web = start(200, **{name: env[name] for name in ("REDIS_URL", "DALSTON_REDIS_PREFIX")})
    orchestrator = Orchestrators(spawn, env, database_url).start()
    task = {"task_type": "echo", "parameters": {"a": 1}}
    key = {"Idempotency-Key": "k"}
    ran: list[str] = []

    def answer(claimed: Delivery) -> Outcome:
        ran.append(claimed.message.task_id)
        return Completed(None)

    with web.client(token_for("submit", "read")) as client:
        redis.process.send_signal(signal.SIGSTOP)
        try:
            first, again = (client.post("/api/v1/tasks", json=task, headers=key) for _ in range(2))
        finally:
            redis.process.send_signal(signal.SIGCONT)
        assert (first.status_code, again.status_code) == (201, 200)
        with Redis.from_url(redis.url) as to_redis:
            to_redis.flushall()
        broker = connect(redis.url, prefix=env["DALSTON_REDIS_PREFIX"])
        with working_engine(broker, answer=answer):
            wait_until(lambda: Task.objects.filter(status="completed").exists(), what="it is completed")
            late = client.post("/api/v1/tasks", json=task, headers=key)
        broker.close()
    assert (late.status_code, late.json()["status"]) == (200, "completed")
    assert {answer.json()["task_id"] for answer in (first, again, late)} == set(ran)
    assert (len(ran), Task.objects.count()) == (1, 1)
    assert orchestrator.stop() == 0


def test_while_redis_hangs_tasks_are_accepted(
    start: Callable[..., Web], valkey_server: Callable[..., Server], token_for: Callable[..., str]
) -> None:
    """Soon, and no request keeps a connection to Postgres while it waits for Redis."""
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


def test_while_redis_hangs_requests_that_need_it_fail_soon_and_hold_no_connection(
    start: Callable[..., Web], valkey_server: Callable[..., Server], token_for: Callable[..., str]
) -> None:
    redis = valkey_server()
    redis.process.send_signal(signal.SIGSTOP)
    try:
        web = start(REDIS_URL=redis.url)
        with web.client(token_for("submit", "read")) as client, ThreadPoolExecutor(30) as many:

            def ask() -> float:
                started = time.monotonic()
                answers = list(many.map(lambda _: client.get("/api/v1/queue/stats"), range(30)))
                assert {answer.json()["code"] for answer in answers} == {"redis_unavailable"}
                return time.monotonic() - started

            first = ask()
            then = min(ask() for _ in range(3))
            waited = first - then  # the rest is work
            assert WEB_TIMEOUT_S - 1 < waited < WEB_TIMEOUT_S + 1.5, "it is not waited for again"
            redis.process.send_signal(signal.SIGCONT)
            wait_until(lambda: client.get("/api/v1/queue/stats").status_code == 200, what="Redis is asked again")
    finally:
        redis.process.send_signal(signal.SIGCONT)
