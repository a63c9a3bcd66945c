"""Notifications of alerts: by mail and webhook, at least once, each channel on its own."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.alerts import evaluate, notify
from dalston_queue.models import AlertState, DeadLetter, Duty
from tests.alerts.mailbox import Mailbox, mail_server
from tests.alerts.support import deadly, firing, run
from tests.api.webhooks.receiver import Receiver, receiving
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


def test_a_mail_is_sent_once_when_alerts_fire_and_once_when_they_end(mailbox: Mailbox) -> None:
    deadly(60)
    run()
    run(after_s=1)
    [mail] = mailbox.mails
    assert "Subject: [Dalston]" in mail
    assert "FIRING (warning) DalstonDeadLettersOfOneCause" in mail
    assert "Open dead letters of one day with the cause rejected: 60." in mail
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
    assert "451" in Duty.objects.get(name=notify.DUTY).last_error
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
    assert "with the cause rejected" in viewer.get("/").content.decode()


def test_what_ended_before_it_could_be_sent_is_not_sent(mailbox: Mailbox, settings: Settings) -> None:
    settings.DALSTON_ALERT_EMAILS = []
    deadly(60)
    run()
    DeadLetter.objects.all().delete()
    run(after_s=120)
    settings.DALSTON_ALERT_EMAILS = ["ops@example.com"]
    notify.send_due(timezone.now() + timedelta(seconds=121))
    assert mailbox.mails == []


def later(seconds: float = notify.FIRST_RETRY_S + 1) -> None:
    """Send what is due so many seconds from now."""
    notify.send_due(timezone.now() + timedelta(seconds=seconds))


def posted(receiver: Receiver) -> list[tuple[str, str]]:
    return [(got.json["subject"], got.json["status"]) for got in receiver.got]


def test_the_webhook_is_called_while_mail_is_refused(mailbox: Mailbox, receiver: Receiver) -> None:
    mailbox.refuses = True
    firing("a")
    notify.run(timezone.now(), "test")
    assert posted(receiver) == [("a", "firing")]
    mailbox.refuses = False
    later()
    assert len(mailbox.mails) == 1
    assert len(receiver.got) == 1, "it had been taken"


def test_the_duty_says_why_until_the_channel_takes_it(mailbox: Mailbox) -> None:
    mailbox.refuses = True
    firing("a")
    for _ in range(2):  # the second finds nothing due
        notify.run(timezone.now(), "test")
        assert "451" in Duty.objects.get(name=notify.DUTY).last_error
    mailbox.refuses = False
    notify.run(timezone.now() + timedelta(seconds=notify.FIRST_RETRY_S + 1), "test")
    assert Duty.objects.get(name=notify.DUTY).last_error == ""


def test_what_fired_and_ended_while_a_channel_failed_is_sent(mailbox: Mailbox, receiver: Receiver) -> None:
    mailbox.refuses, receiver.codes = True, [503]
    [row] = firing("a")
    notify.send_due(timezone.now())
    row.ended_at = timezone.now()
    row.save(update_fields=["ended_at"])
    mailbox.refuses = False
    later()
    assert posted(receiver) == [("a", "firing"), ("a", "firing"), ("a", "ended")]
    [mail] = mailbox.mails
    assert "ENDED (warning) DalstonQueueDeep" in mail
    assert "FIRING" not in mail
    assert f" until {row.ended_at:%Y-%m-%d %H:%M:%S} UTC" in mail
    later(60)
    assert (len(mailbox.mails), len(receiver.got)) == (1, 3)


def test_what_ended_a_day_ago_is_not_sent_any_more(receiver: Receiver) -> None:
    [row] = firing("a")
    row.ended_at = timezone.now()
    row.save(update_fields=["ended_at"])
    later(25 * 3600)
    assert receiver.got == []


def test_the_critical_are_sent_first(receiver: Receiver) -> None:
    firing("a", "b")
    firing("c", severity="critical")
    notify.send_due(timezone.now())
    assert posted(receiver) == [("c", "firing"), ("a", "firing"), ("b", "firing")]


def test_what_a_killed_process_was_sending_is_sent_again(receiver: Receiver) -> None:
    firing("a")
    now = timezone.now()
    assert notify._claim(notify.WEBHOOK, now)
    notify.send_due(now)
    assert receiver.got == []
    later(notify.LEASE.total_seconds() + 1)
    assert posted(receiver) == [("a", "firing")]


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_hangs_delays_no_evaluation_and_gets_each_alert_once(receiver: Receiver) -> None:
    receiver.gate = gate = threading.Event()
    firing("a", "b")

    def send() -> None:
        notify.send_due(timezone.now())
        connection.close()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait_until(lambda: receiver.got, what="the first is being sent")
        assert evaluate.run(timezone.now(), "test")
        AlertState.objects.exclude(name="DalstonQueueDeep").delete()
        notify.send_due(timezone.now())  # as another process does
    finally:
        gate.set()
        sender.join()
    assert sorted(subject for subject, status in posted(receiver) if status == "firing") == ["a", "b"]


def test_a_slow_receiver_costs_a_run_a_bounded_time_and_each_post_is_a_sign_of_life(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "RUN_S", 0.3)
    receiver.delay_s = 0.2
    firing(*"abcdefgh")
    signs: list[int] = []

    def pause(_: float) -> bool:
        signs.append(len(receiver.got))
        return False

    notify.send_due(timezone.now(), pause)
    assert 1 <= len(receiver.got) < 8
    assert signs == list(range(1, len(receiver.got) + 1))
    for _ in range(8):
        notify.send_due(timezone.now())
    assert len(receiver.got) == 8


def test_a_process_that_is_asked_to_stop_sends_no_more(receiver: Receiver) -> None:
    firing("a", "b")
    notify.send_due(timezone.now(), lambda _: True)
    assert len(receiver.got) == 1


def test_a_mail_server_that_is_slow_in_each_step_is_left(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "MAIL_TIMEOUT_S", 0.5)
    mailbox.delay_s = 0.3
    firing("a")
    assert notify.send_due(timezone.now()) == notify.Sent(0, "mail: not taken within 0.5 s")
    mailbox.delay_s = 0.0
    later()
    assert notify.send_due(timezone.now()).problem == ""
    assert AlertState.objects.get().mailed == "firing"
