"""A job's page: what it shows, how it stays current, and who may cancel."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from websockets.sync.client import connect
from websockets.typing import Origin

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.messages import TaskMessage
from dalston_queue.jobs.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit import submit
from dalston_queue.models import Job, OperatorAction, Project, Task, TaskEvent
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
    TaskEvent.objects.create(task=task, transition="release", message="first step", **event)
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
    assert b"Cancelled. Nothing of it was running." in answer.content
    assert Job.objects.get().status == "cancelled"
    again = admin_client.post(f"/jobs/{job.pk}/cancel/", {"reason": "again"}, follow=True)
    assert b"Nothing was changed: the job is cancelled already." in again.content
    first = OperatorAction.objects.order_by("id")[0]
    assert (first.action, first.actor, first.reason) == ("job.cancel", "user admin", "wrong file")


def test_a_viewer_is_refused_even_if_he_sends_the_form(viewer: Client, job: Job) -> None:
    assert viewer.post(f"/jobs/{job.pk}/cancel/", {"reason": "x"}).status_code == 403
    assert Job.objects.get().status == "pending"
    assert not OperatorAction.objects.exists()


def test_a_change_is_pushed_to_its_page(web: Web, job: Job) -> None:
    User.objects.create_user("bea", password="a long pass phrase")
    with web.log_in("bea", "a long pass phrase") as session:
        url = f"ws://127.0.0.1:{web.port}/ws/jobs/{job.pk}/"
        headers = {"Cookie": f"sessionid={session.cookies['sessionid']}"}
        with connect(url, origin=Origin(web.url), additional_headers=headers) as socket:
            until(socket, 'id="stages"')
            Task.objects.filter(stage="split").update(status="running", started_at=timezone.now())
            message = until(socket, 'id="stage-split".*running')
            assert 'id="stages"' not in message
