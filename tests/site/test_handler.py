"""The web process serves a request in one step on a thread that it keeps."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.api.conftest import project, token_for
from tests.support import wait_until
from tests.web import Web

__all__ = ["project", "token_for"]

pytestmark = pytest.mark.django_db(transaction=True)


def threads(web: Web) -> int:
    return psutil.Process(web.process.pid).num_threads()


def test_many_requests_one_after_the_other_need_no_more_threads(web: Web) -> None:
    with web.client() as client:
        client.get("/login/")
        before = threads(web)
        for _ in range(30):
            assert client.get("/login/").status_code == 200
    assert threads(web) <= before + 2  # the process may start threads of its own meanwhile


def test_requests_at_the_same_time_do_not_mix_up_their_traces(web: Web) -> None:
    found: dict[str, str] = {}

    def ask(number: int) -> None:
        trace = f"{number:032x}"
        headers = {"traceparent": f"00-{trace}-00000000000000ff-01"}
        answer = httpx.get(f"{web.url}/api/v1/tasks", headers=headers, timeout=40)
        found[trace] = answer.json()["trace_id"]

    askers = [threading.Thread(target=ask, args=[number]) for number in range(1, 21)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 20
    assert all(sent == answered for sent, answered in found.items())


def test_a_file_is_streamed_whole(web: Web) -> None:
    with web.client() as client:
        page = client.get("/static/ninja/swagger-ui-bundle.js")
    assert (page.status_code, len(page.content)) == (200, int(page.headers["Content-Length"]))
    assert len(page.content) > 500_000


@pytest.fixture
def connection_to(web: Web) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", web.port)) as connection:
        yield connection


def test_a_client_that_disconnects_within_its_body_does_no_harm(web: Web, connection_to: socket.socket) -> None:
    head = "POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
    connection_to.sendall(head.encode() + b"\r\n" + json.dumps({"task_type": "echo"}).encode())
    connection_to.close()
    with web.client() as client:
        wait_until(lambda: client.get("/login/").status_code == 200, what="the next request is served")
    assert "Traceback" not in web.process.output


def test_a_body_without_end_is_not_kept(web: Web, connection_to: socket.socket) -> None:
    """A body is read before its sender is known: any client could fill the disk."""
    head = "POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\nTransfer-Encoding: chunked\r\n"
    connection_to.settimeout(30)
    connection_to.sendall(head.encode() + b"\r\n")
    mebibyte = b"100000\r\n" + b"x" * 2**20 + b"\r\n"
    for _ in range(40):
        connection_to.sendall(mebibyte)  # without an end
    assert connection_to.recv(1000).startswith(b"HTTP/1.1 401 ")

    def kept() -> list[str]:
        return [link for fd in Path(f"/proc/{web.process.pid}/fd").iterdir() if "(deleted)" in (link := _link(fd))]

    wait_until(lambda: not kept(), what=lambda: f"nothing of it is kept: {kept()}")


def test_a_body_that_is_too_long_for_every_route_gets_413(web: Web, token_for: Callable[..., str]) -> None:
    headers = {"Authorization": f"Bearer {token_for('submit')}"}
    with web.client() as client:
        for body in (b"x" * 20 * 2**20, iter([b"x" * 2**20] * 20)):  # with its length, and in chunks
            answer = client.post("/api/v1/jobs:batch", content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert client.get("/login/").status_code == 200


def _link(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""  # closed meanwhile
