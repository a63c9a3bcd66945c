"""Fixtures of the tests of webhooks: a receiver, a project with a secret, jobs that end, and a sender."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.jobs.webhooks.sender import WebhookSender
from dalston_queue.models import Job, Project, Task, WebhookDelivery, WebhookSecret
from tests.api.conftest import Api
from tests.api.webhooks.receiver import Receiver, receiving
from tests.jobs import make
from tests.support import wait_until

SECRET = "whsec_test"


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.DALSTON_WEBHOOK_ALLOWED_NETWORKS = ["127.0.0.0/8"]
    settings.DALSTON_WEBHOOK_BACKOFF_BASE_S = settings.DALSTON_WEBHOOK_BACKOFF_CAP_S = 0.1
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def signed(project: Project) -> Project:
    """The project has a secret."""
    WebhookSecret.objects.create(project=project, text=SECRET, created_at=timezone.now())
    return project


def submit(api: Api, url: str) -> Job:
    answer = api.post("/tasks", {"task_type": "echo", "callback_url": url})
    assert answer.status_code == 201, answer.content
    return Job.objects.get(pk=answer.json()["job_id"])


def complete(job: Job) -> None:
    make.claim(job)
    make.move("complete", Task.objects.filter(job=job), result=b"1")
    advance_job(job)


def fail(job: Job) -> None:
    make.claim(job)
    [task] = Task.objects.filter(job=job)
    ending = Ending(task_id=task.id, attempt=task.attempt, at=timezone.now(), cause=Cause.ERROR, message="it broke")
    with transaction.atomic():
        lock_jobs([job.id])
        end_tasks([ending])
    advance_job(job)


def advance_job(job: Job) -> None:
    with transaction.atomic():
        lock_jobs([job.id])
        advance([job.id], timezone.now())


def send_all(sender: WebhookSender | None = None) -> None:
    """Until nothing is due, now or after a backoff."""
    sender = sender or WebhookSender(lambda _found: None)

    def nothing_left() -> bool:
        sender.send_due()
        return not sender._sending and not WebhookDelivery.objects.filter(state="pending").exists()

    wait_until(nothing_left, what="all are sent or given up")
