"""A job's page: what it shows, how it stays current, and who may cancel."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from websockets.sync.client import connect
from websockets.typing import Origin

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.broker.protocol.types import NodeState
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import DeadLetter, Job, OperatorAction, Project, Task, TaskEvent, WebhookDelivery
from tests.dashboard.test_socket import until
from tests.web import Web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]


@pytest.fixture
def job(broker: Broker) -> Job:
    stages = (
        StageSpec(stage="split", parameters={"file": "<b>a.wav</b>"}),
        StageSpec(stage="notes", after=("split",)),
    )
    made = submit(JobSpec(name="audio", stages=stages), project=Project.objects.create(name="alpha"))
    return Job.objects.get(pk=made.job_id)


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada"))
    return client


def test_it_shows_the_job_its_tasks_and_why_they_wait(viewer: Client, job: Job) -> None:
    task = Task.objects.get(stage="split")
    event = {"from_status": "pending", "to_status": "ready", "attempt": 1, "deliveries": 0, "at": timezone.now()}
    TaskEvent.objects.create(task=task, transition="make_ready", message="first step", **event)
    text = viewer.get(f"/jobs/{job.pk}/").content.decode()
    assert 'id="stage-split"' in text
    assert "It waits for split to be over." in text
    assert "first step" in text
    assert "&lt;b&gt;a.wav&lt;/b&gt;" in text
    assert "<b>a.wav" not in text
    assert "Cancel job" not in text, "a viewer has no such button"


def test_a_running_task_shows_how_far_its_engine_says_it_is(viewer: Client, job: Job, broker: Broker) -> None:
    task = Task.objects.get(stage="split")
    message = TaskMessage(
        task_id=str(task.pk), job_id=str(job.pk), queue=task.queue, task_type=task.task_type, attempt=1
    )
    broker.append([message])
    consumer = Consumer(broker, "n.demo.0.b", [task.queue])
    consumer.open()
    [claimed] = consumer.exchange([], 1).claimed
    Task.objects.filter(pk=task.pk).update(status="running")
    assert claimed.progress({"fraction": 0.4, "message": "decoding <b>"})
    assert "40 % decoding &lt;b&gt;" in viewer.get(f"/jobs/{job.pk}/").content.decode()
    assert claimed.progress(["step", 3])
    assert "[&quot;step&quot;,3]" in viewer.get(f"/jobs/{job.pk}/").content.decode()


def test_an_unknown_job_is_a_404_and_nobody_sees_one_without_a_login(viewer: Client, job: Job) -> None:
    assert viewer.get(f"/jobs/{uuid4()}/").status_code == 404
    assert Client().get(f"/jobs/{job.pk}/").status_code == 302


def test_staff_cancels_with_a_reason_and_is_told_what_happened(admin_client: Client, job: Job) -> None:
    assert b"Cancel job" in admin_client.get(f"/jobs/{job.pk}/").content
    answer = admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": "wrong file"}, follow=True)
    assert b"Cancelled. No task was running." in answer.content
    assert Job.objects.get().status == "cancelled"
    again = admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": "again"}, follow=True)
    assert b"Nothing was changed: the job is cancelled already." in again.content
    first = OperatorAction.objects.order_by("id")[0]
    assert (first.action, first.actor, first.reason) == ("job.cancel", "user admin", "wrong file")


def test_a_cancel_says_what_it_stops_and_needs_a_reason(admin_client: Client, job: Job) -> None:
    Task.objects.filter(stage="split").update(status="running", assigned_worker_id="gpu-01.demo.0.b")
    text = admin_client.get(f"/jobs/{job.pk}/").content.decode()
    assert "<strong>1 running task</strong> on gpu-01.demo.0.b, 1 that waits." in text
    answer = admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": " "}, follow=True)
    assert b"Nothing was changed: a reason is needed." in answer.content
    assert Job.objects.get().status == "pending"
    assert not OperatorAction.objects.exists()


def test_what_was_done_to_it_is_on_its_page(admin_client: Client, job: Job) -> None:
    admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": "wrong file"})
    text = admin_client.get(f"/jobs/{job.pk}/").content.decode()
    assert 'id="action-' in text
    assert "wrong file" in text
    assert '<del class="mono">pending</del> <ins class="mono">cancelled</ins>' in text


def test_every_waiting_task_says_why_for_the_same_number_of_queries(
    viewer: Client, broker: Broker, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    first = tuple(StageSpec(stage=f"a{n}", queue="echo") for n in range(60))
    stages = (*first, *(StageSpec(stage=f"b{n}", queue="echo", after=(f"a{n}",)) for n in range(60)))
    made = submit(JobSpec(name="wide", stages=stages), project=Project.objects.create(name="beta"))
    Task.objects.filter(stage__startswith="a").update(status="ready")
    with django_assert_max_num_queries(14):
        text = viewer.get(f"/jobs/{made.job_id}/").content.decode()
    assert text.count("It waits for a") == 60
    assert text.count("will be queued within a second") == 60
    assert text.count('class="box ') == 120


def test_a_large_result_stays_on_the_tasks_own_page(viewer: Client, job: Job) -> None:
    now, noise = timezone.now(), [secrets.token_hex(8) for _ in range(2000)]
    Task.objects.filter(stage="split").update(status="completed", finished_at=now, result={"words": noise})
    assert noise[7] not in viewer.get(f"/jobs/{job.pk}/").content.decode()
    notes = Task.objects.get(stage="notes")
    text = viewer.get(f"/tasks/{notes.pk}/").content.decode()
    assert "Result of split" in text
    assert noise[7] in text
    assert "<summary>Show</summary>" in text
    assert "nothing yet" in text


def test_its_webhooks_are_shown_and_an_operator_sends_one_again(admin_client: Client, viewer: Client, job: Job) -> None:
    page, now = f"/jobs/{job.pk}/", timezone.now()
    assert "Webhook" not in viewer.get(page).content.decode(), "nobody is to be told"
    Job.objects.filter(pk=job.pk).update(callback_url="https://example.com/hook?key=secret")
    assert "None yet" in viewer.get(page).content.decode()
    fields = {"status": "failed", "state": "gave_up", "attempts": 12, "last_code": 500, "last_error": "<b>oops"}
    hook = WebhookDelivery.objects.create(
        job=job, url="https://example.com/hook?key=secret", origin="https://example.com",
        finished_at=now, next_at=now, **fields,
    )  # fmt: skip
    text = viewer.get(page).content.decode()
    assert "last response 500: &lt;b&gt;oops" in text
    assert "secret" not in text
    assert "Send again" not in text
    send = f"{page}webhooks/{hook.pk}/send/"
    assert viewer.post(send).status_code == 403
    assert send in admin_client.get(page).content.decode()
    assert "It is sent again now" in admin_client.post(send, {"reason": "fixed"}, follow=True).content.decode()
    hook.refresh_from_db()
    assert (hook.state, hook.attempts) == ("pending", 0)
    action = OperatorAction.objects.get(action="webhook.send")
    assert (action.target, action.reason, action.after) == (str(hook.pk), "fixed", {"due": True})
    assert "webhook.send" in viewer.get(page).content.decode(), "it is in the job's own trail"
    assert admin_client.post(f"{page}webhooks/{uuid4()}/send/").status_code == 404


class TestLogs:
    @pytest.fixture
    def task(self, job: Job) -> Task:
        task = Task.objects.get(job=job, stage="split")
        moves = {"attempt": 1, "deliveries": 0, "engine_id": "gpu-01.demo.0.b"}
        for transition, source, target in (("start", "queued", "running"), ("dead_letter", "running", "dead_letter")):
            at = timezone.now()
            TaskEvent.objects.create(
                task=task, transition=transition, from_status=source, to_status=target, at=at, **moves
            )
        return task

    def log(self, viewer: Client, task: Task, **headers: str) -> str:
        answer = viewer.get(f"/tasks/{task.pk}/runs/1/log/", headers=headers)
        assert answer.status_code == 200
        return answer.content.decode()

    def test_a_node_that_is_away_is_named_and_the_black_box_shown(self, viewer: Client, task: Task) -> None:
        evidence = {"text": "signal 11", "log": ["last <words>"]}
        fields = {"queue": "split", "cause": "engine_lost", "fingerprint": "f", "attempt": 1}
        DeadLetter.objects.create(task=task, evidence=evidence, created_at=timezone.now(), **fields)
        text = self.log(viewer, task)
        assert "The node gpu-01 is down" in text
        assert "last &lt;words&gt;" in text
        assert "<html" in text, "without a script it is a page"

    def test_the_nodes_answer_is_shown(self, viewer: Client, task: Task, broker: Broker) -> None:
        broker.registry.beat_node("gpu-01", NodeState.ACTIVE, [])
        asked: list[Command] = []

        def answer() -> None:
            asked.extend(broker.node("gpu-01").receive("0", block_ms=4000))
            line = "2026-01-01T00:00:00.000Z loading <model>\x1b[31m"
            broker.logs("gpu-01").write("demo.0", [(1, line)], asked[0].command_id)
            broker.node("gpu-01").reply(Reply(command_id=asked[0].command_id, state=CommandState.DONE))

        node = threading.Thread(target=answer)
        node.start()
        text = self.log(viewer, task, **{"HX-Request": "true"})
        node.join()
        assert asked[0].arguments["engine"] == "gpu-01.demo.0.b"
        assert "00:00:00 loading &lt;model&gt;" in text
        assert "\x1b" not in text
        assert "<html" not in text

    def test_a_run_that_never_was_is_a_404(self, viewer: Client, task: Task) -> None:
        for number in (0, 2):
            assert viewer.get(f"/tasks/{task.pk}/runs/{number}/log/").status_code == 404
        assert viewer.get(f"/tasks/{uuid4()}/").status_code == 404


def test_a_viewer_is_refused_even_if_he_sends_the_form(viewer: Client, job: Job) -> None:
    assert viewer.post(f"/jobs/{job.pk}/cancel/", {"reason": "x"}).status_code == 403
    assert Job.objects.get().status == "pending"
    assert not OperatorAction.objects.exists()


def test_a_change_is_pushed_to_its_page(web: Web, job: Job) -> None:
    with web.log_in(User.objects.create_user("bea")) as session:
        url = f"ws://127.0.0.1:{web.port}/ws/jobs/{job.pk}/"
        headers = {"Cookie": f"sessionid={session.cookies['sessionid']}"}
        with connect(url, origin=Origin(web.url), additional_headers=headers) as socket:
            until(socket, 'id="stages"')
            Task.objects.filter(stage="split").update(status="running", started_at=timezone.now())
            message = until(socket, 'id="stage-split".*running')
            assert 'id="stages"' not in message
