"""Helpers for tests of alerts on a real system."""

from datetime import timedelta

from django.utils import timezone

from dalston_queue.alerts import evaluate, notify
from dalston_queue.models import AlertState, DeadLetter, Duty


def run(after_s: float = 0.0) -> None:
    """One evaluation, so many seconds from now, and its notifications."""
    Duty.objects.filter(name=evaluate.DUTY).delete()
    assert evaluate.run(timezone.now() + timedelta(seconds=after_s), "test")
    notify.run(timezone.now(), "test")


def standing() -> dict[str, AlertState]:
    return {row.name: row for row in AlertState.objects.filter(ended_at=None)}


def deadly(count: int, cause: str = "rejected") -> None:
    at = timezone.now()
    DeadLetter.objects.bulk_create(
        DeadLetter(queue="echo", cause=cause, fingerprint="a", created_at=at) for _ in range(count)
    )


def firing(*subjects: str, name: str = "DalstonQueueDeep", severity: str = "warning") -> list[AlertState]:
    """Alerts that fire, and that no channel knows."""
    now = timezone.now()
    times = {"since": now, "held_at": now, "fired_at": now}
    return [
        AlertState.objects.create(name=name, subject=subject, severity=severity, value=1, text=subject, **times)
        for subject in subjects
    ]
