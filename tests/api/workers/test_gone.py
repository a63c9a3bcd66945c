"""A worker that dies while its poll waits: later tasks go to other workers, at once and uncounted."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dalston_queue.accounts.tokens import revoke
from dalston_queue.api.requests.worker_polling import RECHECK_S, poll
from dalston_queue.broker import Broker
from dalston_queue.broker.engine.remote import Renewal
from dalston_queue.models import ApiToken
from tests.api.workers.test_overlap import append, register
from tests.support import wait_until
from tests.web import Web

WORKERS = "/api/v1/internal/workers"


@pytest.fixture
def shared(web_broker: Broker) -> Iterator[Broker]:
    yield web_broker
    web_broker.reset_queue("gone")


@pytest.mark.django_db(transaction=True)
def test_a_poll_whose_client_has_gone_claims_nothing(web: Web, shared: Broker, token_for: Callable[..., str]) -> None:
    token = token_for("worker")
    with web.client(token) as client:
        doomed, other = (
            client.post(f"{WORKERS}/register", json={"stages": ["gone"]}).json()["worker_id"] for _ in range(2)
        )
        home, before = shared.home, _sleepers(shared)
        with socket.create_connection(("127.0.0.1", web.port)) as connection:
            body = json.dumps({"held": []}).encode()
            head = [
                f"POST {WORKERS}/{doomed}/poll?wait=20 HTTP/1.1",
                "Host: 127.0.0.1",
                f"Authorization: Bearer {token}",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            ]
            connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
            wait_until(lambda: home.command("HGET", home.keys.engine(doomed), "poll"), what="its poll has come")
            wait_until(lambda: _sleepers(shared) > before, what="its poll waits")
            # A task that arrives at the moment of the disconnect may still be claimed: the web process must have seen
            # the end of the connection, and notified its thread, before another request is answered.
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
            assert client.get("/healthz").status_code == 200
        [task] = append(shared, "gone")
        found = client.post(f"{WORKERS}/{other}/poll?wait=5", json={"held": []}).json()["tasks"]
        assert [each["task_id"] for each in found] == [task]
        for worker in (doomed, other):
            client.delete(f"{WORKERS}/{worker}")


@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_revoked_while_its_poll_waits_gets_nothing(
    web: Web, shared: Broker, token_for: Callable[..., str]
) -> None:
    """It could not report a result: the task would wait until the worker is judged dead."""
    with web.client(token_for("worker")) as client, ThreadPoolExecutor() as threads:
        worker = client.post(f"{WORKERS}/register", json={"stages": ["gone"]}).json()["worker_id"]
        before = _sleepers(shared)
        waiting = threads.submit(client.post, f"{WORKERS}/{worker}/poll?wait=20", json={"held": []})
        wait_until(lambda: _sleepers(shared) > before, what="its poll waits")
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > RECHECK_S, what="it has waited for a while")
        revoke(ApiToken.objects.all(), actor="a test")
        [task] = append(shared, "gone")
        answer = waiting.result()
        assert (answer.status_code, answer.json().get("code")) == (401, "token_revoked")
    record = shared.records("gone", [task])[task]
    assert (record.owner, record.deliveries, record.losses) == ("", 0, 0), "it is queued, and the delivery is uncounted"


def _sleepers(broker: Broker) -> int:
    clients: bytes = broker.home.command("CLIENT", "LIST")
    return clients.count(b"cmd=blpop")


def test_a_claim_at_the_moment_of_the_disconnect_is_released_uncounted(broker: Broker) -> None:
    worker = register(broker, "echo")()
    [task] = append(broker, "echo")
    _, claimed = poll(worker, [], None, 0, lambda: True)
    record = broker.records("echo", [task])[task]
    assert (claimed, record.owner, record.deliveries) == ([], "", 0)
    [again] = worker.claim(1, Renewal())
    assert again.message.task_id == task
    worker.leave()
