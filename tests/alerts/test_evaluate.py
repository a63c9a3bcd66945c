"""Alerts on a real system: stored, shown, sent by mail and webhook, and ended."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.alerts import evaluate, notify
from dalston_queue.alerts.facts import read_facts
from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.models import AlertState, DeadLetter, Duty, Sample
from dalston_queue.orchestrator.duties.housekeeping import delete_expired
from dalston_queue.orchestrator.duties.samples import take_samples
from tests.alerts.mailbox import Mailbox, mail_server
from tests.api.webhooks.receiver import Receiver, receiving
from tests.broker.conftest import message
from tests.orchestrator.processes import Orchestrators
from tests.support import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with mail_server() as box:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", box.port
        settings.DALSTON_ALERT_EMAILS = ["ops@example.com", "night@example.com"]
        settings.DALSTON_PUBLIC_URL = "https://dalston.example.com/"
        yield box


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    with receiving() as found:
        settings.DALSTON_ALERT_WEBHOOK_URL = found.url
        settings.DALSTON_WEBHOOK_ALLOWED_NETWORKS = ["127.0.0.0/8"]
        yield found


def run(after_s: float = 0.0) -> None:
    """One evaluation, so many seconds from now."""
    Duty.objects.filter(name=evaluate.DUTY).delete()
    assert evaluate.run(timezone.now() + timedelta(seconds=after_s), "test")


def standing() -> dict[str, AlertState]:
    return {row.name: row for row in AlertState.objects.filter(ended_at=None)}


def deadly(count: int, cause: str = "rejected") -> None:
    at = timezone.now()
    DeadLetter.objects.bulk_create(
        DeadLetter(queue="echo", cause=cause, fingerprint="a", created_at=at) for _ in range(count)
    )


def test_an_alert_begins_fires_is_shown_and_ends(viewer: Client, broker: Broker, settings: Settings) -> None:
    settings.DALSTON_ALERT_NO_WORKERS_S = 20
    run()
    row = standing()["DalstonNoActiveWorkers"]
    assert row.fired_at is None
    assert "No alert fires" in viewer.get("/").content.decode()
    run(after_s=21)
    text = viewer.get("/").content.decode()
    assert "No engine is ready: nothing can run." in text
    assert "/alerts/no-active-workers/" in text
    runbook = viewer.get("/alerts/no-active-workers/").content.decode()
    assert "DALSTON_ALERT_NO_WORKERS_S" in runbook
    assert "below 1 for 20 s" in runbook
    broker.registry.beat_engine(EngineBeat(engine_id="lone.x.0.b", state=EngineState.READY, queues=("echo",)))
    run(after_s=30)
    assert "DalstonNoActiveWorkers" in standing(), "it was quiet for a moment only"
    run(after_s=90)
    assert "DalstonNoActiveWorkers" not in standing()
    assert AlertState.objects.get(name="DalstonNoActiveWorkers").ended_at is not None
    assert ">ended</span>" in viewer.get("/alerts/").content.decode()


def test_the_threshold_is_the_setting(settings: Settings) -> None:
    deadly(3)
    run()
    assert "DalstonDeadLettersOfOneCause" not in standing()
    settings.DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE = 2
    run(after_s=1)
    row = standing()["DalstonDeadLettersOfOneCause"]
    assert (row.subject, row.value) == ("rejected", 3)
    assert row.text == "3 open dead letters of one day have the cause rejected."


def test_what_grows_is_measured_between_a_sample_and_now(broker: Broker) -> None:
    broker.append([message()])
    minute = timezone.now()
    take_samples(minute)
    broker.home.command("HINCRBY", broker.home.keys.counters("echo"), "refused", 30)
    for sample in Sample.objects.filter(kind="counters"):  # it was taken two minutes ago
        sample.numbers["at_ms"] -= 120_000
        sample.save()
    facts = read_facts(minute)
    assert facts.per_minute("refused") == pytest.approx(15, rel=0.1)
    run()
    assert standing()["DalstonResultsRefused"].value == pytest.approx(15, rel=0.1)


def test_a_mail_is_sent_once_when_alerts_fire_and_once_when_they_end(mailbox: Mailbox) -> None:
    deadly(60)
    run()
    run(after_s=1)
    [mail] = mailbox.mails
    assert "Subject: [Dalston]" in mail
    assert "FIRING (warning) DalstonDeadLettersOfOneCause" in mail
    assert "60 open dead letters of one day have the cause rejected." in mail
    assert "threshold: above 50" in mail
    assert "https://dalston.example.com/alerts/dead-letters-of-one-cause/" in mail
    assert len(mailbox.recipients) == 2
    DeadLetter.objects.all().delete()
    run(after_s=120)
    assert len(mailbox.mails) == 2
    assert "ENDED (warning) DalstonDeadLettersOfOneCause" in mailbox.mails[1]
    run(after_s=121)
    assert len(mailbox.mails) == 2


def test_a_mail_that_is_refused_is_sent_later_and_the_duty_says_why(mailbox: Mailbox) -> None:
    mailbox.refuses = True
    deadly(60)
    run()
    assert mailbox.mails == []
    assert "451" in Duty.objects.get(name=evaluate.DUTY).last_error
    mailbox.refuses = False
    notify.send_due(timezone.now())
    assert mailbox.mails == [], "not at once again"
    notify.send_due(timezone.now() + timedelta(seconds=notify.FIRST_RETRY_S + 1))
    assert len(mailbox.mails) == 1


def test_each_alert_is_posted_to_the_webhook(receiver: Receiver, settings: Settings) -> None:
    settings.DALSTON_ALERT_WEBHOOK_TOKEN = "tell-us"
    deadly(60)
    receiver.codes = [503]
    run()
    notify.send_due(timezone.now() + timedelta(seconds=notify.FIRST_RETRY_S + 1))
    bodies = [json.loads(got.body) for got in receiver.got]
    sent = [body for body in bodies if body["alert"] == "DalstonDeadLettersOfOneCause"]
    assert {body["status"] for body in sent} == {"firing"}
    assert sent[-1]["subject"] == "rejected"
    assert sent[-1]["value"] == 60
    assert sent[-1]["runbook"].endswith("/alerts/dead-letters-of-one-cause/")
    assert receiver.got[0].headers["Authorization"] == "Bearer tell-us"
    before = len(receiver.got)
    notify.send_due(timezone.now() + timedelta(hours=1))
    assert len(receiver.got) == before, "each was sent"


def test_a_muted_alert_is_shown_and_not_sent(mailbox: Mailbox, settings: Settings, viewer: Client) -> None:
    settings.DALSTON_ALERTS_MUTED = ["DalstonDeadLettersOfOneCause"]
    deadly(60)
    run()
    assert not any("DalstonDeadLettersOfOneCause" in mail for mail in mailbox.mails)
    assert "have the cause rejected" in viewer.get("/").content.decode()


def test_what_ended_before_it_could_be_sent_is_not_sent(mailbox: Mailbox, settings: Settings) -> None:
    settings.DALSTON_ALERT_EMAILS = []
    deadly(60)
    run()
    DeadLetter.objects.all().delete()
    run(after_s=120)
    settings.DALSTON_ALERT_EMAILS = ["ops@example.com"]
    notify.send_due(timezone.now() + timedelta(seconds=121))
    assert mailbox.mails == []


def test_one_process_at_a_time_evaluates_and_not_twice_in_ten_seconds() -> None:
    now = timezone.now()
    assert evaluate.run(now, "a")
    assert not evaluate.run(now + timedelta(seconds=5), "b")
    assert evaluate.run(now + timedelta(seconds=11), "b")
    assert Duty.objects.get(name=evaluate.DUTY).holder == "b"


def test_an_alert_of_an_earlier_version_ends() -> None:
    now = timezone.now()
    old = {"severity": "warning", "value": 1, "text": "x", "since": now, "held_at": now, "fired_at": now}
    AlertState.objects.create(name="DalstonGone", **old)
    run()
    assert AlertState.objects.get(name="DalstonGone").ended_at is not None


def test_ended_alerts_expire_with_dead_letters(settings: Settings) -> None:
    def row(ended: datetime | None, name: str) -> None:
        AlertState.objects.create(
            name=name, severity="warning", value=1, text="x", since=long_ago, held_at=long_ago, fired_at=long_ago,
            ended_at=ended,
        )  # fmt: skip

    now = timezone.now()
    long_ago = now - timedelta(days=40)
    row(long_ago, "old")
    row(now, "new")
    row(None, "standing")
    delete_expired(now)
    assert {each.name for each in AlertState.objects.all()} == {"new", "standing"}


@pytest.mark.django_db(transaction=True)
def test_an_orchestrator_evaluates(orchestrators: Orchestrators) -> None:
    deadly(3, "timeout")
    process = orchestrators.start(DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE="2")
    wait_until(
        lambda: AlertState.objects.filter(name="DalstonDeadLettersOfOneCause", subject="timeout").exists(),
        what=lambda: process.output,
    )
    process.stop()
