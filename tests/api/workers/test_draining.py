"""Drain and resume of a worker by an operator: plain HTTP against a real web process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from dalston_queue.broker import Broker
from dalston_queue.models import OperatorAction
from tests.api.workers.http_worker import Json, Worker, hold, refused
from tests.api.workers.test_overlap import append
from tests.support import wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "draining"


@pytest.fixture
def operator(web: Web, token_for: Callable[..., str]) -> Iterator[httpx.Client]:
    with web.client(token_for("operate", "read")) as client:
        yield client


@pytest.fixture
def worker(web: Web, web_broker: Broker, token_for: Callable[..., str]) -> Iterator[Worker]:
    """With room for two tasks."""
    with web.client(token_for("worker")) as client:
        one = Worker(client, QUEUE, capacity=2)
        yield one
        client.delete(one.path)
    web_broker.reset_queue(QUEUE)


@pytest.fixture
def task(web_broker: Broker, worker: Worker) -> Json:
    """A task that the worker has."""
    append(web_broker, QUEUE)
    return worker.take()


def command(operator: httpx.Client, worker: Worker, verb: str, reason: str = "") -> httpx.Response:
    return operator.post(f"/api/v1/workers/{worker.facts['worker_id']}/{verb}", json={"reason": reason})


def last_poll(broker: Broker, worker: Worker) -> Any:
    """Its number, in the worker's entry among the engines."""
    home = broker.home
    return home.command("HGET", home.keys.engine(worker.facts["worker_id"]), "poll")


def listed(operator: httpx.Client, worker: Worker) -> Json:
    engines = [engine for node in operator.get("/api/v1/nodes").json() for engine in node["engines"]]
    [mine] = [engine for engine in engines if engine["engine_id"] == worker.facts["worker_id"]]
    return dict(mine)


def test_a_waiting_poll_ends_with_should_drain(
    web_broker: Broker, operator: httpx.Client, worker: Worker, task: Json
) -> None:
    assert worker.heartbeat(task).json()["should_drain"] is False
    before = last_poll(web_broker, worker)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(worker.call, "poll", {"held": [hold(task)]}, wait=20)
        wait_until(lambda: last_poll(web_broker, worker) != before, what="it has arrived")
        asked = command(operator, worker, "drain", "new driver").json()
        assert asked == {"worker_id": worker.facts["worker_id"], "should_drain": True, "changed": True}
        answer = waiting.result().json()
    assert (answer["should_drain"], answer["tasks"], answer["lost"]) == (True, [], [])


def test_a_draining_worker_keeps_its_task_and_gets_no_more(
    web_broker: Broker, operator: httpx.Client, worker: Worker, task: Json
) -> None:
    command(operator, worker, "drain", "new driver").raise_for_status()
    append(web_broker, QUEUE)
    began = time.monotonic()
    assert worker.poll(1.5, held=[task]) == []
    assert time.monotonic() - began >= 1.5, "it waits instead of returning at once"
    assert [it["task_id"] for it in worker.poll(0)] == [task["task_id"]], "a task that it did not name is still its own"
    assert worker.heartbeat(task).json()["should_drain"] is True
    assert listed(operator, worker)["state"] == "draining"
    assert "new driver" in listed(operator, worker)["info"]["why"]
    assert worker.result(task).status_code == 200


def test_a_resumed_worker_gets_tasks_again(web_broker: Broker, operator: httpx.Client, worker: Worker) -> None:
    command(operator, worker, "drain").raise_for_status()
    [waits] = append(web_broker, QUEUE)
    assert worker.poll(0) == []
    resumed = command(operator, worker, "resume").json()
    assert resumed == {"worker_id": worker.facts["worker_id"], "should_drain": False, "changed": True}
    assert worker.heartbeat().json()["should_drain"] is False
    again = worker.take()
    assert (again["task_id"], listed(operator, worker)["state"]) == (waits, "ready")
    assert worker.result(again).status_code == 200


def test_only_a_command_that_changes_something_is_audited(operator: httpx.Client, worker: Worker) -> None:
    commands = [("drain", "new driver"), ("drain", "again"), ("resume", "done"), ("resume", "again")]
    changed = [command(operator, worker, verb, reason).json()["changed"] for verb, reason in commands]
    assert changed == [True, False, True, False]
    actions = OperatorAction.objects.filter(target=worker.facts["worker_id"]).order_by("id")
    assert [(it.action, it.reason) for it in actions] == [
        ("worker.drain", "new driver"),
        ("worker.resume", "done"),
    ]


def test_a_worker_that_has_left_is_404(web_broker: Broker, operator: httpx.Client, worker: Worker) -> None:
    command(operator, worker, "drain").raise_for_status()
    assert worker.http.delete(worker.path).status_code == 200
    assert refused(command(operator, worker, "drain")) == (404, "not_found")
    unknown = operator.post("/api/v1/workers/http.nosuch.0123456789abcdef/resume", json={})
    assert refused(unknown) == (404, "not_found")
    home = web_broker.home
    assert home.command("EXISTS", home.keys.engine(worker.facts["worker_id"])) == 0, "the command left no key"
