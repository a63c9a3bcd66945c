"""A job's page: its tasks, its history and webhooks, its cancel button, its WebSocket."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, OperatorAction, Project, Task, TaskEvent, WebhookDelivery
from tests.dashboard.sockets import socket, until
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


def test_a_running_task_shows_its_progress(viewer: Client, job: Job, broker: Broker) -> None:
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


def test_an_unknown_job_is_a_404_and_the_page_needs_a_login(viewer: Client, job: Job) -> None:
    assert viewer.get(f"/jobs/{uuid4()}/").status_code == 404
    assert Client().get(f"/jobs/{job.pk}/").status_code == 302


def test_an_admin_cancels_with_a_reason_and_reads_the_outcome(admin_client: Client, job: Job) -> None:
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
    assert "<strong>1 running task</strong> on gpu-01.demo.0.b; 1 waiting." in text
    answer = admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": " "}, follow=True)
    assert b"Nothing was changed: a reason is needed." in answer.content
    assert Job.objects.get().status == "pending"
    assert not OperatorAction.objects.exists()


def test_operator_actions_are_on_its_page(admin_client: Client, job: Job) -> None:
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
    assert "no result yet" in text


def test_its_webhooks_are_shown_and_an_operator_sends_one_again(admin_client: Client, viewer: Client, job: Job) -> None:
    page, now = f"/jobs/{job.pk}/", timezone.now()
    assert "Webhook" not in viewer.get(page).content.decode(), "it has no callback URL"
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


def test_a_viewer_who_sends_the_form_is_refused(viewer: Client, job: Job) -> None:
    assert viewer.post(f"/jobs/{job.pk}/cancel/", {"reason": "x"}).status_code == 403
    assert Job.objects.get().status == "pending"
    assert not OperatorAction.objects.exists()


def test_a_change_is_pushed_to_its_page(web: Web, job: Job) -> None:
    bea = User.objects.create_user("bea")
    with web.log_in(bea) as session, socket(web, session, f"jobs/{job.pk}/") as connection:
        until(connection, 'id="stages"')
        Task.objects.filter(stage="split").update(status="running", started_at=timezone.now())
        message = until(connection, 'id="stage-split".*running')
        assert 'id="stages"' not in message
