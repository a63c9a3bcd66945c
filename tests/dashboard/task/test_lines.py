"""A task's log lines on its page: its transitions and what its engines logged, by time, bounded."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.models import Task, TaskEvent
from tests.jobs import make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]
ENGINE = "gpu-01.demo.0.b"


@pytest.fixture
def task(db: None) -> Task:
    task = make.single("split")
    now = timezone.now()
    Task.objects.filter(pk=task.pk).update(created_at=now - timedelta(seconds=5))
    moves = (("start", "running", ENGINE, ""), ("dead_letter", "dead_letter", ENGINE, "rejected"))
    for second, (transition, target, engine, cause) in enumerate(moves):
        at = now + timedelta(seconds=3 * second)
        fields = {"transition": transition, "to_status": target, "engine_id": engine, "cause": cause, "at": at}
        TaskEvent.objects.create(task=task, from_status="queued", attempt=1, deliveries=0, message="a secret", **fields)
    return task


def lines(viewer: Client, task: Task, **headers: str) -> str:
    answer = viewer.get(f"/tasks/{task.pk}/lines/", headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_transitions_and_engine_lines_are_one_list_by_time(viewer: Client, task: Task, broker: Broker) -> None:
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [])
    received: list[Command] = []
    stamp = f"{timezone.now() + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    logged = f'{stamp} {{"event": "decoding <b>", "task_id": "{task.pk}", "seconds": 3}}'

    # Read by the supervisor after the end, and written before: as JSON, and as development writes it.
    read, wrote = (timezone.now() + timedelta(seconds=second) for second in (3.8, 0.4))
    late = f"{read:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    again = f'{late} {{"event": "json_line", "timestamp": "{wrote.isoformat()}", "task_id": "{task.pk}"}}'
    words = f"{late} {wrote:%H:%M:%S.%f} [info     ] word_line      [engine] task_id={task.pk}"
    lying = f'{late} {{"event": "lying", "timestamp": "1999-01-01T00:00:00Z", "task_id": "{task.pk}"}}'

    def answer() -> None:
        received.extend(broker.node("gpu-01").receive("0", block_ms=4000))
        command = received[0].command_id
        broker.logs("gpu-01").write("demo.0", list(enumerate((logged, again, words, lying), 1)), command)
        broker.node("gpu-01").reply(Reply(command_id=command, state=CommandState.DONE))

    # Both deliveries of an attempt are one here, so one question comes.
    node = threading.Thread(target=answer)
    node.start()
    text = lines(viewer, task, **{"HX-Request": "true"})
    node.join()
    assert received[0].arguments["containing"] == str(task.pk)
    wanted = ["job_submitted trace_id=", "task_started attempt=1", "json_line", "word_line"]
    wanted += ["decoding &lt;b&gt; seconds=3", "task_dead_lettered", "lying"]
    positions = [text.find(each) for each in wanted]
    assert -1 not in positions and positions == sorted(positions)
    assert "cause=rejected" in text and "a secret" not in text
    assert "<html" not in text


def test_a_node_that_does_not_answer_is_named(viewer: Client, task: Task, broker: Broker) -> None:
    text = lines(viewer, task)
    assert "The node gpu-01 is down, so its logs cannot be read." in text
    assert "task_started" in text and "<html" in text
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [])
    assert "gpu-01: no answer." in lines(viewer, task)


def test_the_task_page_links_to_them_and_an_unknown_task_is_a_404(viewer: Client, task: Task) -> None:
    assert f'href="/tasks/{task.pk}/lines/"' in viewer.get(f"/tasks/{task.pk}/").content.decode()
    assert viewer.get(f"/tasks/{uuid4()}/lines/").status_code == 404
    assert Client().get(f"/tasks/{task.pk}/lines/").status_code == 302
