"""`?wait=`: the answer comes when the task is over, not later and hardly earlier."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from django.utils import timezone

from dalston_queue.api.subscriptions import long_poll
from dalston_queue.api.subscriptions.waiting import WAIT_SLOTS
from dalston_queue.broker import connect
from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.ids import uuid7
from dalston_queue.models import Task
from tests.support import keeps_time, wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
NODE = "waited-for"  # the web process outlives a test, and so do the commands to a node


def finish(task_id: str) -> None:
    Task.objects.filter(pk=task_id).update(status="completed", finished_at=timezone.now(), result={"done": True})


def test_it_answers_as_soon_as_the_task_is_over(web: Web, token_for: Callable[..., str]) -> None:
    with web.client(token_for("submit", "read")) as client:

        def once() -> float:
            task_id = client.post("/api/v1/tasks", json={"task_type": "echo"}).json()["task_id"]
            answers: list[tuple[float, dict[str, object]]] = []

            def ask() -> None:
                body = client.get(f"/api/v1/tasks/{task_id}?wait=20").json()
                answers.append((time.monotonic(), body))

            waiting = [threading.Thread(target=ask) for _ in range(15)]
            for thread in waiting:
                thread.start()
            # More requests wait than the pool has connections, and another request still gets one.
            assert client.get(f"/api/v1/tasks/{task_id}").status_code == 200
            assert not answers
            finish(task_id)
            finished = time.monotonic()
            for thread in waiting:
                thread.join()
            assert [body["status"] for _, body in answers] == ["completed"] * 15
            return max(at for at, _ in answers) - finished

        keeps_time(2.0, once)


def test_it_answers_with_the_state_when_the_time_is_up(web: Web, token_for: Callable[..., str]) -> None:
    with web.client(token_for("submit", "read")) as client:
        started = time.monotonic()
        answer = client.post("/api/v1/tasks?wait=0.5", json={"task_type": "echo"})
        assert (answer.status_code, answer.json()["status"]) == (201, "pending")
        assert 0.5 <= time.monotonic() - started < 20
        assert client.get(f"/api/v1/tasks/{answer.json()['task_id']}?wait=31").status_code == 422


def test_a_wait_for_a_node_holds_no_connection(web: Web, token_for: Callable[..., str], redis_url: str) -> None:
    broker = connect(redis_url, prefix=web.prefix)
    broker.registry.beat_node(NODE, NodeState.ACTIVE, [], {})
    node = broker.node(NODE)
    codes: list[int] = []
    with web.client(token_for("operate", "read")) as client:

        def command() -> None:
            body = {"command": "drain", "reason": "test"}
            codes.append(client.post(f"/api/v1/nodes/{NODE}/commands?wait=20", json=body).status_code)

        waiting = [threading.Thread(target=command) for _ in range(14)]
        for thread in waiting:
            thread.start()
        wait_until(
            lambda: len(node.receive("0", count=50)) == 14, what="more of them wait than the pool has connections"
        )
        assert client.get("/api/v1/tasks").status_code == 200 and not codes
        for sent in node.receive("0", count=50):
            node.reply(Reply(command_id=sent.command_id, state=CommandState.DONE))
        for thread in waiting:
            thread.join()
    assert codes == [200] * 14
    broker.registry.forget(node_ids=[NODE])
    broker.close()


def test_all_waits_share_the_slots() -> None:
    """Each wait holds a thread of the server: without a free slot a request is answered at once."""
    with ExitStack() as taken:
        assert all(taken.enter_context(WAIT_SLOTS.take()) for _ in range(WAIT_SLOTS.limit))
        started = time.monotonic()
        long_poll.tasks.wait(uuid7(), 5, "project")
        long_poll.jobs.wait(uuid7(), 5, "project")
        assert time.monotonic() - started < 5
    with WAIT_SLOTS.take() as free:
        assert free
