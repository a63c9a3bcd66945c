"""Webhooks: a project whose receivers hang takes half of the sender's slots, whatever their names."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.webhooks import sender
from dalston_queue.jobs.webhooks.deliveries import claim
from dalston_queue.jobs.webhooks.sender import MAX_SENDING, WebhookSender
from dalston_queue.models import Job, Project, WebhookDelivery, WebhookSecret
from tests.jobs.make import project, single

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def _due(of: str, count: int, *, minutes: int = 0) -> Project:
    """Deliveries of a project to receivers of different names, due so many minutes ago."""
    owner = project(of)
    WebhookSecret.issue(owner, NOW)
    for number in range(count):
        job = single("echo", of=of).job
        Job.objects.filter(pk=job.pk).update(callback_url=f"https://r{number}.{of}.example/hook")
        cancel_job(job.pk, NOW)
    rows = WebhookDelivery.objects.filter(job__project=owner)
    assert set(rows.values_list("project_id", flat=True)) == {owner.pk}
    rows.update(next_at=NOW - timedelta(minutes=minutes))
    return owner


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> WebhookSender:
    """A sender none of whose receivers answers."""
    monkeypatch.setattr(sender, "_start", lambda _attempt: Future())
    return WebhookSender(lambda _found: None)


def _sending(of: WebhookSender) -> dict[UUID, int]:
    projects = [lease.project_id for lease in of._sending.values()]
    return {each: projects.count(each) for each in projects}


def test_receivers_that_hang_leave_slots_to_other_projects(hanging: WebhookSender) -> None:
    attacker = _due("attacker", 20, minutes=60)
    hanging.send_due()
    assert _sending(hanging) == {attacker.pk: MAX_SENDING // 2}
    other, third = _due("other", 5), _due("third", 1)
    hanging.send_due()
    assert _sending(hanging) == {attacker.pk: 4, other.pk: 2, third.pk: 1}


def test_receivers_that_are_all_busy_are_passed_within_their_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalston_queue.jobs.webhooks.deliveries.FIRST_LIMIT", 3)
    attacker, other = _due("attacker", 12, minutes=60), _due("other", 1)
    rows = WebhookDelivery.objects.filter(project_id=attacker.pk)
    rows.exclude(origin__contains="//r9.").update(origin="https://one.example")
    rows.filter(origin__contains="//r9.").update(next_at=NOW - timedelta(minutes=30))
    claimed = [claim(NOW) for _ in range(5)]
    origins = [each.origin for each in claimed if each]
    assert origins[:2] == ["https://one.example"] * 2
    assert set(origins[2:]) == {"https://r9.attacker.example", "https://r0.other.example"}
    assert [claim(NOW, full=[attacker.pk]), claim(NOW)] == [None, None]
    WebhookDelivery.objects.update(sending_until=None, next_at=NOW)
    found = claim(NOW, full=[attacker.pk])
    assert found is not None and found.project_id == other.pk
