"""Answers: those that no client reads hold little memory, and those that are read slowly are sent whole."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Project, Task
from dalston_site.web.held import SMALL_BYTES
from tests.abuse.sockets import Raw, memory_mb, quick
from tests.support import wait_until
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)


def _add_large_tasks(count: int, project: Project) -> None:
    for _ in range(count):
        job = submit(single_task("idle"), project=project).job_id
        Task.objects.filter(job_id=job).update(parameters={"x": secrets.token_hex(100_000)})


def test_an_answer_that_is_read_slowly_is_sent_whole(
    db: None, tmp_path: Path, token_for: Callable[..., str], project: Project
) -> None:
    _add_large_tasks(30, project)
    server = Web(
        environment(), tmp_path / "log", before="from dalston_site.web import protocol; protocol.WRITE_S = 0.3"
    )
    client = Raw(server, receive_bytes=4096)
    try:
        head = b"GET /api/v1/tasks?limit=200 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        client.send(head + f"Authorization: Bearer {token_for('read')}\r\n\r\n".encode())
        got = b""
        while part := client.answer():
            got += part
            time.sleep(0.01)
    finally:
        client.close()
        server.process.reap()
    headers, _, body = got.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in headers.lower()


def test_answers_that_no_client_reads_are_bounded_and_given_up(
    db: None, tmp_path: Path, token_for: Callable[..., str], project: Project
) -> None:
    _add_large_tasks(60, project)
    code = "from dalston_site.web import protocol, held; protocol.WRITE_S = 2.0; held.answers._limit = 20"
    server = Web(environment(), tmp_path / "log", before=code)
    submitter = token_for("submit")
    token, other = token_for("read"), token_for("read", project=Project.objects.create(name="b"))
    list_all = b"GET /api/v1/tasks?limit=200 HTTP/1.1\r\nHost: localhost\r\n"
    attackers = [Raw(server, receive_bytes=4096) for _ in range(10)]
    try:
        quick(server)
        before = memory_mb(server)
        for attacker in attackers:  # the network takes a few MB of each
            attacker.send((list_all + f"Authorization: Bearer {token}\r\n\r\n".encode()) * 4)
        wait_until(lambda: _list(server, token) == 503, what="half of what is free is this project's")
        assert _submit_large_batch(server, submitter) == 200, "what was done is never answered as if it was not"
        assert _list(server, other) == 200
        assert memory_mb(server) - before < 150
        assert quick(server) < 5
        wait_until(lambda: _list(server, token) == 200, what="answers that are not read are given up")
    finally:
        for attacker in attackers:
            attacker.close()
        server.process.reap()


def _submit_large_batch(web: Web, token: str) -> int:
    """Its answer is larger than what is sent in any case."""
    job = {"name": "x", "stages": [{"stage": "idle"}]}
    with web.client() as client:
        answer = client.post(
            "/api/v1/jobs:batch", json={"jobs": [job] * 1000}, headers={"Authorization": f"Bearer {token}"}
        )
    assert len(answer.content) > SMALL_BYTES
    return answer.status_code


def _list(web: Web, token: str) -> int:
    with web.client() as client:
        headers = {"Authorization": f"Bearer {token}"}
        return client.get("/api/v1/tasks?limit=200", headers=headers).status_code
