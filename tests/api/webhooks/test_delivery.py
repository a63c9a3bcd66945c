"""Webhooks, received by a real server: signed, once for each end of a job, again after a failure."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.advance import advance
from dalston_queue.jobs.lifecycle.dead_letters import Ending, end_tasks
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.operator.replay import replay
from dalston_queue.jobs.webhooks import deliveries as webhook_claims
from dalston_queue.jobs.webhooks import sender as webhooks
from dalston_queue.jobs.webhooks.attempt import send
from dalston_queue.jobs.webhooks.deliveries import claim, send_again
from dalston_queue.jobs.webhooks.lookups import Lookups
from dalston_queue.jobs.webhooks.sender import WebhookSender
from dalston_queue.models import DeadLetter, Job, OperatorAction, Project, Task, WebhookDelivery, WebhookSecret
from dalston_queue.orchestrator.duties import housekeeping
from tests.api.conftest import Api
from tests.api.webhooks.receiver import Received, Receiver, receiving
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators
from tests.support import Spawned, wait_until
from tests.web import ROOT

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
    _advance(job)


def fail(job: Job) -> None:
    make.claim(job)
    [task] = Task.objects.filter(job=job)
    ending = Ending(task_id=task.id, attempt=task.attempt, at=timezone.now(), cause=Cause.ERROR, message="it broke")
    with transaction.atomic():
        lock_jobs([job.id])
        end_tasks([ending])
    _advance(job)


def _advance(job: Job) -> None:
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


def documented() -> Callable[..., bool]:
    """The function of the page, as it stands there."""
    [source] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "webhooks.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    found: Callable[..., bool] = names["is_from_dalston"]
    return found


def test_each_end_of_a_job_is_told_once_and_signed(api: Api, signed: Project, receiver: Receiver) -> None:
    jobs = [submit(api, receiver.url) for _ in range(3)]
    ends: list[Callable[[Job], object]] = [complete, fail, lambda job: cancel_job(job.id, timezone.now())]
    for end, job in zip(ends, jobs, strict=True):
        end(job)
        _advance(job)  # what is over does not end again
    submit(api, receiver.url)  # not over: not told
    complete(make.single().job)  # over, but it has no address
    assert WebhookDelivery.objects.count() == 3
    send_all()
    told = {each.json["job_id"]: each for each in receiver.got}
    assert len(receiver.got) == 3
    for job, status in zip(jobs, ("completed", "failed", "cancelled"), strict=True):
        got = told[str(job.id)]
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
    before = {name: webhooks.ATTEMPTS.labels(name)._value.get() for name in ("failed", "delivered")}
    send_all()
    after = {name: webhooks.ATTEMPTS.labels(name)._value.get() - count for name, count in before.items()}
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


def test_a_replayed_job_tells_its_second_end_too(api: Api, signed: Project, receiver: Receiver) -> None:
    job = submit(api, receiver.url)
    fail(job)
    send_all()
    replay([DeadLetter.objects.get().id], timezone.now())
    make.move("complete", Task.objects.filter(job=job), result=b"1")
    _advance(job)
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


def test_one_receiver_does_not_keep_another_waiting(api: Api, signed: Project, receiver: Receiver) -> None:
    slow, other = "http://127.0.0.1:1111/x", "http://127.0.0.1:2222/y"
    for url in (slow, slow, slow, other):
        complete(submit(api, url))
    now = timezone.now()
    claimed = [claim(now) for _ in range(4)]
    assert [row.url if row else None for row in claimed] == [slow, slow, other, None]
    # Whoever claimed them is gone: they are due again.
    later = now + timedelta(seconds=60)
    again = [claim(later) for _ in range(3)]
    assert sorted(row.attempts if row else 0 for row in again) == [1, 2, 2]


def test_a_name_that_is_not_found_keeps_no_other_receiver_waiting(
    api: Api, signed: Project, receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver hangs for one name, as it does when that name's servers are away."""
    asked, away = list[str](), threading.Event()

    def ask(name: str) -> list[str]:
        asked.append(name)
        away.wait(30)
        return []

    settings.DALSTON_WEBHOOK_ATTEMPTS = 1
    names = Lookups(ask, limit_s=1.0)
    monkeypatch.setattr(webhooks, "send", partial(send, names=names))
    for port in range(2001, 2011):
        complete(submit(api, f"http://away.example:{port}/"))
    complete(submit(api, receiver.url))
    started = time.monotonic()
    try:
        send_all()
    finally:
        away.set()
    assert time.monotonic() - started < 8, "ten times a second if one waited for the other"
    assert len(receiver.got) == 1
    lost = WebhookDelivery.objects.exclude(origin__contains="127.0.0.1")
    assert set(lost.values_list("last_error")) == {("the resolver gave no answer for away.example in time",)}
    assert asked == ["away.example"], "one thread for a name, however many want it"


def test_what_is_refused(api: Api, project: Project, settings: Settings) -> None:
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
    with pytest.raises(CommandError, match="no project nobody"):
        call_command("webhook", "secret", "--project", "nobody")
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


def test_a_job_that_expires_takes_its_deliveries_along(api: Api, signed: Project, receiver: Receiver) -> None:
    complete(submit(api, receiver.url))
    housekeeping.expire_kept(timezone.now() + timedelta(days=365))
    assert not Job.objects.exists() and not WebhookDelivery.objects.exists()


@pytest.mark.parametrize("busy", [False, True], ids=["free", "busy"])
def test_the_backlog_of_a_receiver_is_not_walked(api: Api, signed: Project, receiver: Receiver, busy: bool) -> None:
    for url in ("http://127.0.0.1:1111/x", "http://127.0.0.1:2222/y"):
        complete(submit(api, url))
    many = "INSERT INTO dalston_webhook_delivery (id, job_id, url, origin, status, error, finished_at, state, attempts,"
    many += " next_at, last_error) SELECT gen_random_uuid(), job_id, url, origin, status, error, finished_at,"
    many += " (ARRAY['delivered', 'pending'])[1 + n %% 2], 1, next_at - interval '1 hour', ''"
    many += " FROM dalston_webhook_delivery, generate_series(1, 20000) n WHERE origin LIKE %s"
    now = timezone.now()
    until = now + timedelta(minutes=1)
    with connection.cursor() as cursor:
        cursor.execute(many, ["%:1111"])
        cursor.execute("ANALYZE dalston_webhook_delivery")
    for _ in range(2 if busy else 0):
        claimed = claim(now)
        assert claimed is not None and claimed.origin.endswith(":1111")
    with connection.cursor() as cursor:
        asked: dict[str, Any] = {"now": now, "until": until, "per_origin": 2, "first": webhook_claims.FIRST}
        cursor.execute("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + webhook_claims.CLAIM, asked)
        [[[explained]]] = cursor.fetchall()
    sent = WebhookDelivery.objects.filter(sending_until=until).get()
    assert sent.origin == ("http://127.0.0.1:2222" if busy else "http://127.0.0.1:1111")
    assert sum(read_by(explained["Plan"])) < 10 * webhook_claims.FIRST, "of 10 000"


def read_by(plan: dict[str, Any]) -> Iterator[float]:
    """How many rows each step of a plan looked at."""
    passed_over = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    yield (plan["Actual Rows"] + passed_over) * plan["Actual Loops"]
    for inner in plan.get("Plans", []):
        yield from read_by(inner)


@pytest.mark.django_db(transaction=True)
def test_an_orchestrator_that_dies_after_sending_leaves_it_to_another(
    api: Api,
    signed: Project,
    receiver: Receiver,
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
) -> None:
    orchestrators = Orchestrators(spawn, process_env, database_url)
    allowed: dict[str, Any] = {"DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"}
    cancel_job(submit(api, receiver.url).id, timezone.now())
    doomed = orchestrators.start(ready=False, DALSTON_FAULT="webhook.sent", **allowed)
    assert doomed.wait() == -9
    assert len(receiver.got) == 1
    assert WebhookDelivery.objects.get().state == "pending"
    WebhookDelivery.objects.update(**_leased_until(timezone.now()))
    orchestrators.start(**allowed)
    wait_until(lambda: WebhookDelivery.objects.get().state == "delivered", what="the other has sent it")
    assert len(receiver.got) == 2
    assert len({each.headers["Dalston-Delivery"] for each in receiver.got}) == 1


@pytest.mark.django_db(transaction=True)
def test_a_slow_receiver_does_not_hold_up_the_end(
    api: Api,
    signed: Project,
    receiver: Receiver,
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
) -> None:
    receiver.drip = True
    cancel_job(submit(api, receiver.url).id, timezone.now())
    env: dict[str, Any] = {"DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "DALSTON_WEBHOOK_TIMEOUT_S": "60"}
    sender = Orchestrators(spawn, process_env, database_url).start(**env)
    wait_until(lambda: len(receiver.got) == 1, what="it is being sent")
    started = time.monotonic()
    assert sender.stop() == 0
    assert time.monotonic() - started < webhooks.STOP_TIMEOUT_S + 10, "and not for the minute that a receiver has"


def test_a_late_sender_does_not_mark_what_was_asked_for_anew(api: Api, signed: Project, receiver: Receiver) -> None:
    complete(submit(api, receiver.url))
    late = WebhookSender(lambda _found: None)
    late.send_due()
    [(future, claimed)] = late._sending.items()
    future.result()
    later = timezone.now() + timedelta(hours=1)
    assert send_again(WebhookDelivery.objects.get(), later)
    again = claim(later)
    assert again is not None and again.attempts == claimed.attempts
    late.send_due()
    assert WebhookDelivery.objects.get().state == "pending", "it is for whoever sends it now to say"


def _leased_until(at: datetime) -> dict[str, Any]:
    return {"next_at": at, "sending_until": at}
