"""The web process serves a request in one step on a thread that it keeps."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.support import wait_until
from tests.web import Web, web

__all__ = ["web"]

pytestmark = pytest.mark.django_db(transaction=True)


def threads(web: Web) -> int:
    return psutil.Process(web.process.pid).num_threads()


def test_many_requests_one_after_the_other_need_no_more_threads(web: Web) -> None:
    with web.client() as client:
        client.get("/healthz")
        before = threads(web)
        for _ in range(30):
            assert client.get("/healthz").status_code == 200
    assert threads(web) <= before + 2  # what the process does on its own may come to life meanwhile


def test_requests_at_the_same_time_do_not_mix_up_their_traces(web: Web) -> None:
    found: dict[str, str] = {}

    def ask(number: int) -> None:
        trace = f"{number:032x}"
        headers = {"traceparent": f"00-{trace}-00000000000000ff-01"}
        answer = httpx.get(f"{web.url}/api/v1/tasks", headers=headers, timeout=30)
        found[trace] = answer.json()["trace_id"]

    askers = [threading.Thread(target=ask, args=[number]) for number in range(1, 21)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 20
    assert all(sent == told for sent, told in found.items())


def test_a_file_is_streamed_whole(web: Web) -> None:
    with web.client() as client:
        page = client.get("/static/ninja/swagger-ui-bundle.js")
    assert (page.status_code, len(page.content)) == (200, int(page.headers["Content-Length"]))
    assert len(page.content) > 500_000


@pytest.fixture
def connection_to(web: Web) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", web.port)) as connection:
        yield connection


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_trace(web: Web, connection_to: socket.socket) -> None:
    head = "POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
    connection_to.sendall(head.encode() + b"\r\n" + json.dumps({"task_type": "echo"}).encode())
    connection_to.close()
    with web.client() as client:
        wait_until(lambda: client.get("/healthz").status_code == 200, 10, "the next request is served")
    assert "Traceback" not in web.process.output
