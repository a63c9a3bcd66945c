"""Alerts about queues that a client lets go over a threshold and back: bounded rows and mails, the critical first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.alerts import evaluate, notify
from dalston_queue.alerts.decide import MAX_SUBJECTS, QUIET
from dalston_queue.models import AlertState
from tests.alerts.cases import facts
from tests.alerts.mailbox import Mailbox, mail_server

pytestmark = pytest.mark.django_db
TICK = timedelta(seconds=evaluate.INTERVAL_S)
TICKS, QUEUES, OVER_EACH = 30, 200, 7
"""A queue is over its threshold in one tick of seven: then it has been quiet for long enough to end in between."""


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with mail_server() as box:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", box.port
        settings.DALSTON_ALERT_EMAILS = ["ops@example.com"]
        yield box


def test_queues_that_flap_make_one_mail_a_tick_and_hide_no_critical_alert(mailbox: Mailbox) -> None:
    start = timezone.now() - TICKS * TICK
    for tick in range(TICKS):
        now = start + tick * TICK
        ages = {(f"q{n}", "medium", "p95"): 5000.0 for n in range(QUEUES) if n % OVER_EACH == tick % OVER_EACH}
        evaluate.evaluate(replace(facts(ages=ages, led=tick < TICKS - 6), at=now))
        assert AlertState.objects.filter(ended_at=None, name="DalstonQueueAgeHigh").count() <= MAX_SUBJECTS
        notify.send_due(now)
    assert OVER_EACH * TICK > QUIET
    made = Counter(AlertState.objects.values_list("name", flat=True))["DalstonQueueAgeHigh"]
    assert TICKS < made <= TICKS * MAX_SUBJECTS * (TICK / QUIET) + MAX_SUBJECTS
    assert len(mailbox.mails) <= TICKS
    [critical] = [mail for mail in mailbox.mails if "FIRING (critical) DalstonNoLeader" in mail]
    assert "Subject: [Dalston] critical: No orchestrator leads" in critical.replace("\n ", " ")
    assert critical.index("DalstonNoLeader") < critical.index("DalstonQueueAgeHigh")
