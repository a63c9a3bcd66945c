"""Deliveries of webhooks to a real server: signed, one for each end of a job, retried after a failure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.operator.replay import replay
from dalston_queue.jobs.webhooks.deliveries import claim
from dalston_queue.metrics.processes import WEBHOOKS
from dalston_queue.models import DeadLetter, Job, OperatorAction, Project, Task, WebhookDelivery, WebhookSecret
from dalston_queue.orchestrator.duties import housekeeping
from tests.api.conftest import Api
from tests.api.webhooks.conftest import SECRET, advance_job, complete, fail, send_all, submit
from tests.api.webhooks.receiver import Received, Receiver
from tests.jobs import make
from tests.web import ROOT


def documented() -> Callable[..., bool]:
    """The function of docs/webhooks.md."""
    [source] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "webhooks.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    found: Callable[..., bool] = names["is_from_dalston"]
    return found


def test_each_end_of_a_job_is_delivered_once_and_signed(api: Api, signed: Project, receiver: Receiver) -> None:
    jobs = [submit(api, receiver.url) for _ in range(3)]
    ends: list[Callable[[Job], object]] = [complete, fail, lambda job: cancel_job(job.id, timezone.now())]
    for end, job in zip(ends, jobs, strict=True):
        end(job)
        advance_job(job)  # what is over does not end again
    submit(api, receiver.url)  # not over: no delivery
    complete(make.single().job)  # over, but without a callback URL
    assert WebhookDelivery.objects.count() == 3
    send_all()
    by_job = {each.json["job_id"]: each for each in receiver.got}
    assert len(receiver.got) == 3
    for job, status in zip(jobs, ("completed", "failed", "cancelled"), strict=True):
        got = by_job[str(job.id)]
        assert got.json["event"] == got.headers["Dalston-Event"] == f"job.{status}"
        assert (got.json["status"], got.json["project"], got.path) == (status, "alpha", "/hook?x=1")
        assert got.json["delivery_id"] == got.headers["Dalston-Delivery"]
        assert got.json["tasks"] == [{"task_id": str(job.tasks.get().id), "stage": "echo"}]
        assert ("it broke" in (got.json["error"] or "")) == (status == "failed")
        check_signature(got)
        shown = Api(api.token).get(f"/jobs/{job.id}").json()
        assert shown["callback_url"] == receiver.url
        [webhook] = shown["webhooks"]
        assert (webhook["state"], webhook["attempts"], webhook["last_code"]) == ("delivered", 1, 200)


def check_signature(got: Received) -> None:
    is_from_dalston, signature = documented(), got.headers["Dalston-Signature"]
    assert is_from_dalston(SECRET, signature, got.body)
    assert not is_from_dalston(SECRET, signature, got.body + b" ")
    assert not is_from_dalston("whsec_other", signature, got.body)
    assert not is_from_dalston(SECRET, signature, got.body, tolerance_s=-1)
    assert signature.startswith(f"t={got.headers['Dalston-Timestamp']},v1=")


def test_a_failed_delivery_is_tried_again_with_the_same_id(api: Api, signed: Project, receiver: Receiver) -> None:
    receiver.codes = [500, 503]
    complete(submit(api, receiver.url))
    before = {name: WEBHOOKS.labels(name)._value.get() for name in ("failed", "delivered")}
    send_all()
    after = {name: WEBHOOKS.labels(name)._value.get() - count for name, count in before.items()}
    assert after == {"failed": 2, "delivered": 1}
    assert len(receiver.got) == 3
    assert len({each.headers["Dalston-Delivery"] for each in receiver.got}) == 1
    assert len({each.body for each in receiver.got}) == 1
    row = WebhookDelivery.objects.get()
    assert (row.state, row.attempts, row.last_code, row.last_error) == ("delivered", 3, 200, "")


def test_a_redirect_is_not_followed_and_the_last_attempt_gives_up(
    api: Api, signed: Project, receiver: Receiver, settings: Settings
) -> None:
    settings.DALSTON_WEBHOOK_ATTEMPTS = 2
    receiver.codes = [302, 307]
    job = submit(api, receiver.url)
    complete(job)
    send_all()
    assert [each.path for each in receiver.got] == ["/hook?x=1"] * 2
    [shown] = api.get(f"/jobs/{job.id}").json()["webhooks"]
    assert (shown["state"], shown["attempts"], shown["last_code"], shown["next_at"]) == ("gave_up", 2, 307, None)
    assert "redirects are not followed" in shown["last_error"]

    again = api.post(f"/jobs/{job.id}/webhooks/{shown['delivery_id']}/send?reason=fixed")
    assert (again.status_code, again.json()["state"], again.json()["attempts"]) == (200, "pending", 0)
    send_all()
    assert receiver.got[-1].headers["Dalston-Delivery"] == shown["delivery_id"]
    assert WebhookDelivery.objects.get().state == "delivered"
    action = OperatorAction.objects.get(action="webhook.send")
    assert (action.target, action.reason, action.after) == (shown["delivery_id"], "fixed", {"due": True})


def test_the_admin_sends_again_and_only_for_those_who_may(
    api: Api, signed: Project, receiver: Receiver, admin_client: Client, settings: Settings
) -> None:
    settings.DALSTON_WEBHOOK_ATTEMPTS = 1
    receiver.codes = [500]
    complete(submit(api, receiver.url))
    send_all()
    row = WebhookDelivery.objects.get()
    form = {"action": "send_again", "_selected_action": [str(row.pk)]}
    page = "/admin/dalston_queue/webhookdelivery/"
    assert SECRET not in admin_client.get(f"{page}{row.pk}/change/").content.decode()
    viewer = Client()
    viewer.force_login(User.objects.create_user("viewer"))
    viewer.post(page, form)
    assert WebhookDelivery.objects.get().state == "gave_up"
    assert admin_client.post(page, form).status_code == 302
    send_all()
    assert (WebhookDelivery.objects.get().state, len(receiver.got)) == ("delivered", 2)
    assert OperatorAction.objects.get(action="webhook.send").actor == "user admin"


def test_a_delivery_of_another_project_can_not_be_sent(
    api: Api, signed: Project, receiver: Receiver, token_for: Callable[..., str]
) -> None:
    job = submit(api, receiver.url)
    complete(job)
    path = f"/jobs/{job.id}/webhooks/{WebhookDelivery.objects.get().id}/send"
    other = Api(token_for("submit", project=Project.objects.create(name="beta")))
    assert other.post(path).status_code == 404
    claim(timezone.now())
    assert (api.post(path).status_code, api.post(path).json()["code"]) == (409, "state_conflict")


def test_the_second_end_of_a_replayed_job_is_delivered_too(api: Api, signed: Project, receiver: Receiver) -> None:
    job = submit(api, receiver.url)
    fail(job)
    send_all()
    replay([DeadLetter.objects.get().id], timezone.now())
    make.move("complete", Task.objects.filter(job=job), result=b"1")
    advance_job(job)
    send_all()
    assert [each.json["status"] for each in receiver.got] == ["failed", "completed"]
    assert len({each.headers["Dalston-Delivery"] for each in receiver.got}) == 2


def test_a_receiver_that_drips_is_cut_off_in_time(
    api: Api, signed: Project, receiver: Receiver, settings: Settings
) -> None:
    settings.DALSTON_WEBHOOK_TIMEOUT_S, settings.DALSTON_WEBHOOK_ATTEMPTS = 0.5, 1
    receiver.drip = True
    complete(submit(api, receiver.url))
    started = time.monotonic()
    send_all()
    assert time.monotonic() - started < 8, "it would drip for 10 s"
    assert WebhookDelivery.objects.get().last_error == "no answer within 0.5 s"


def test_submissions_with_a_wrong_callback_url_are_refused(api: Api, project: Project, settings: Settings) -> None:
    body = {"task_type": "echo", "callback_url": "https://example.com/hook"}
    answer = api.post("/tasks", body)
    assert answer.status_code == 422
    assert "manage.py webhook secret --project alpha" in answer.json()["detail"]
    out, err = StringIO(), StringIO()
    call_command("webhook", "secret", "--project", "alpha", stdout=out, stderr=err)
    secret = WebhookSecret.objects.get(project=project).text
    assert (out.getvalue().strip(), secret[:6]) == (secret, "whsec_")
    assert secret not in err.getvalue()
    assert OperatorAction.objects.get(action="webhook.secret").target == "alpha"
    with pytest.raises(CommandError, match="no project nosuch"):
        call_command("webhook", "secret", "--project", "nosuch")
    assert api.post("/tasks", body).status_code == 201
    for url in ("http://10.0.0.1/", "http://169.254.169.254/", "ftp://example.com/", "x" * 3000):
        assert api.post("/tasks", {**body, "callback_url": url}).status_code == 422, url
    stages = [{"stage": "echo"}]
    jobs = [{"name": "a", "stages": stages, "callback_url": url} for url in ("https://example.com", "http://[::1]/")]
    items = api.post("/jobs:batch", {"jobs": jobs}).json()["items"]
    assert [item["code"] for item in items] == [None, "invalid"]
    key = {**body, "idempotency_key": "k"}
    assert api.post("/tasks", key).status_code == 201
    assert api.post("/tasks", {**key, "callback_url": "https://example.com/other"}).status_code == 409


def test_deliveries_expire_with_their_job(api: Api, signed: Project, receiver: Receiver) -> None:
    complete(submit(api, receiver.url))
    housekeeping.delete_expired(timezone.now() + timedelta(days=365))
    assert not Job.objects.exists() and not WebhookDelivery.objects.exists()
