"""Senders of webhooks: claims of due deliveries, slow receivers, and senders that die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.webhooks import deliveries as webhook_claims
from dalston_queue.jobs.webhooks import sender as webhooks
from dalston_queue.jobs.webhooks.attempt import send
from dalston_queue.jobs.webhooks.deliveries import claim, send_again
from dalston_queue.jobs.webhooks.lookups import Lookups
from dalston_queue.jobs.webhooks.sender import WebhookSender
from dalston_queue.models import Project, WebhookDelivery
from tests.api.conftest import Api
from tests.api.webhooks.conftest import complete, send_all, submit
from tests.api.webhooks.receiver import Receiver
from tests.orchestrator.processes import Orchestrators
from tests.support import Spawned, wait_until


def test_one_receiver_does_not_keep_another_waiting(api: Api, signed: Project, receiver: Receiver) -> None:
    slow, other = "http://127.0.0.1:1111/x", "http://127.0.0.1:2222/y"
    for url in (slow, slow, slow, other):
        complete(submit(api, url))
    now = timezone.now()
    claimed = [claim(now) for _ in range(4)]
    assert [row.url if row else None for row in claimed] == [slow, slow, other, None]
    # Their sender is gone: they are due again.
    later = now + timedelta(seconds=60)
    again = [claim(later) for _ in range(3)]
    assert sorted(row.attempts if row else 0 for row in again) == [1, 2, 2]


def test_a_name_that_is_not_found_keeps_no_other_receiver_waiting(
    api: Api, signed: Project, receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver hangs for one name."""
    asked, away = list[str](), threading.Event()

    def ask(name: str) -> list[str]:
        asked.append(name)
        away.wait(30)
        return []

    settings.DALSTON_WEBHOOK_ATTEMPTS = 1
    names = Lookups(ask, timeout_s=1.0)
    monkeypatch.setattr(webhooks, "send", partial(send, names=names))
    for port in range(2001, 2011):
        complete(submit(api, f"http://away.example:{port}/"))
    complete(submit(api, receiver.url))
    started = time.monotonic()
    try:
        send_all()
    finally:
        away.set()
    assert time.monotonic() - started < 8, "ten seconds if they waited for each other"
    assert len(receiver.got) == 1
    lost = WebhookDelivery.objects.exclude(origin__contains="127.0.0.1")
    assert set(lost.values_list("last_error")) == {("the resolver gave no answer for away.example in time",)}
    assert asked == ["away.example"], "one thread for a name, however many want it"


@pytest.mark.parametrize("busy", [False, True], ids=["free", "busy"])
def test_a_claim_does_not_read_a_whole_backlog(api: Api, signed: Project, receiver: Receiver, busy: bool) -> None:
    for url in ("http://127.0.0.1:1111/x", "http://127.0.0.1:2222/y"):
        complete(submit(api, url))
    many = "INSERT INTO dalston_webhook_delivery (id, job_id, project_id, url, origin, status, error, finished_at,"
    many += " state, attempts, next_at, last_error)"
    many += " SELECT gen_random_uuid(), job_id, project_id, url, origin, status, error, finished_at,"
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
        asked: dict[str, Any] = {"now": now, "until": until, "per_origin": 2, "first": webhook_claims.FIRST_LIMIT}
        asked["full"] = []
        cursor.execute("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + webhook_claims.CLAIM, asked)
        [[[explained]]] = cursor.fetchall()
    sent = WebhookDelivery.objects.filter(sending_until=until).get()
    assert sent.origin == ("http://127.0.0.1:2222" if busy else "http://127.0.0.1:1111")
    assert sum(read_by(explained["Plan"])) < 10 * webhook_claims.FIRST_LIMIT, "of 10 000"


def read_by(plan: dict[str, Any]) -> Iterator[float]:
    """How many rows each step of a plan read."""
    removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    yield (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    for inner in plan.get("Plans", []):
        yield from read_by(inner)


@pytest.mark.django_db(transaction=True)
def test_another_orchestrator_sends_again_after_one_died_before_the_commit(
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
def test_a_slow_receiver_does_not_delay_the_stop(
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


def test_a_late_sender_does_not_mark_a_newer_sending(api: Api, signed: Project, receiver: Receiver) -> None:
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
    assert WebhookDelivery.objects.get().state == "pending", "only its current sender may mark it"


def _leased_until(at: datetime) -> dict[str, Any]:
    return {"next_at": at, "sending_until": at}
