"""The log of a task's delivery: requested from its node, or why it is not there."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.models import DeadLetter, Task, TaskEvent
from tests.jobs import make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


@pytest.fixture
def task(db: None) -> Task:
    task = make.single("split")
    moves = {"attempt": 1, "deliveries": 0, "engine_id": "gpu-01.demo.0.b"}
    for transition, source, target in (("start", "queued", "running"), ("dead_letter", "running", "dead_letter")):
        at = timezone.now()
        TaskEvent.objects.create(task=task, transition=transition, from_status=source, to_status=target, at=at, **moves)
    return task


def log(viewer: Client, task: Task, **headers: str) -> str:
    answer = viewer.get(f"/tasks/{task.pk}/deliveries/1/log/", headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_node_that_is_down_is_named_and_the_black_box_shown(viewer: Client, task: Task) -> None:
    evidence = {"text": "signal 11", "log": ["last <words>"]}
    fields = {"queue": "split", "cause": "engine_lost", "fingerprint": "f", "attempt": 1}
    DeadLetter.objects.create(task=task, evidence=evidence, created_at=timezone.now(), **fields)
    text = log(viewer, task)
    assert "The node gpu-01 is down" in text
    assert "last &lt;words&gt;" in text
    assert "<html" in text, "without a script it is a page"


def test_the_nodes_answer_is_shown(viewer: Client, task: Task, broker: Broker) -> None:
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [])
    received: list[Command] = []

    def answer() -> None:
        received.extend(broker.node("gpu-01").receive("0", block_ms=4000))
        line = "2026-01-01T00:00:00.000Z loading <model>\x1b[31m"
        broker.logs("gpu-01").write("demo.0", [(1, line)], received[0].command_id)
        broker.node("gpu-01").reply(Reply(command_id=received[0].command_id, state=CommandState.DONE))

    node = threading.Thread(target=answer)
    node.start()
    text = log(viewer, task, **{"HX-Request": "true"})
    node.join()
    assert received[0].arguments["engine"] == "gpu-01.demo.0.b"
    assert "00:00:00 loading &lt;model&gt;" in text
    assert "\x1b" not in text
    assert "<html" not in text


def test_an_unknown_delivery_is_a_404(viewer: Client, task: Task) -> None:
    for number in (0, 2):
        assert viewer.get(f"/tasks/{task.pk}/deliveries/{number}/log/").status_code == 404
    assert viewer.get(f"/tasks/{uuid4()}/").status_code == 404
