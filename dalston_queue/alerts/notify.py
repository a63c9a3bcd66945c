"""Notifies of what fires and what ended: a mail for all that changed, a POST to a webhook for each.

At least once: a row remembers what each channel was notified of, and is sent again until that worked, for a day.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import Q

from dalston_queue.alerts.table import BY_NAME
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.attempt import NotDelivered, send
from dalston_queue.jobs.webhooks.deliveries import allowed_networks
from dalston_queue.jobs.webhooks.target import read_target
from dalston_queue.models import AlertState

log = structlog.get_logger(__name__)

FIRING, ENDED = "firing", "ended"
MAX_AGE = timedelta(days=1)
FIRST_RETRY_S, LAST_RETRY_S = 30, 900
BATCH = 100


class NotNotified(OSError):
    """A channel did not take it; it is sent again later."""


def send_due(now: datetime) -> None:
    """Send what no channel has yet. Raises NotNotified if a channel failed."""
    problems = []
    for field, is_used, notify in (
        ("mailed", bool(settings.DALSTON_ALERT_EMAILS), _mail),
        ("called", bool(settings.DALSTON_ALERT_WEBHOOK_URL), _call),
    ):
        rows = _due(field, now)
        muted = [row for row in rows if not is_used or _is_muted(row) or _is_over(row, field)]
        _mark(muted, field)
        wanted = [row for row in rows if row not in muted]
        if wanted:
            try:
                notify(wanted, field)
            except OSError as error:
                _failed(wanted, now)
                problems.append(str(error))
                log.warning("an alert could not be sent", channel=field, alerts=len(wanted), error=str(error))
    if problems:
        raise NotNotified("; ".join(problems))


def status_of(row: AlertState) -> str:
    return ENDED if row.ended_at else FIRING


def _due(field: str, now: datetime) -> list[AlertState]:
    fired = AlertState.objects.filter(fired_at__isnull=False).filter(
        Q(ended_at=None) & ~Q(**{field: FIRING}) | Q(ended_at__gt=now - MAX_AGE) & ~Q(**{field: ENDED})
    )
    ready = fired.filter(Q(next_try_at=None) | Q(next_try_at__lte=now))
    return list(ready.order_by("id")[:BATCH])


def _is_muted(row: AlertState) -> bool:
    return row.name in settings.DALSTON_ALERTS_MUTED


def _is_over(row: AlertState, field: str) -> bool:
    """It ended before its firing was sent."""
    return row.ended_at is not None and not getattr(row, field)


def _mark(rows: Sequence[AlertState], field: str) -> None:
    for status in (FIRING, ENDED):
        ids = [row.pk for row in rows if status_of(row) == status]
        if ids:
            AlertState.objects.filter(pk__in=ids).update(**{field: status, "failures": 0, "next_try_at": None})


def _failed(rows: Sequence[AlertState], now: datetime) -> None:
    for row in rows:
        delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(row.failures, 10))
        row.failures = min(row.failures + 1, 1000)
        row.next_try_at = now + timedelta(seconds=delay)
        row.save(update_fields=["failures", "next_try_at"])


def _mail(rows: Sequence[AlertState], field: str) -> None:
    firing = [row for row in rows if status_of(row) == FIRING]
    ended = [row for row in rows if status_of(row) == ENDED]
    worst = "critical" if any(row.severity == "critical" for row in firing) else "warning"
    subject = f"[Dalston] {worst}: {firing[0].text}" if firing else f"[Dalston] ended: {ended[0].text}"
    if len(rows) > 1:
        subject += f" And {len(rows) - 1} more."
    parts = [_paragraph(row, "FIRING") for row in firing] + [_paragraph(row, "ENDED") for row in ended]
    message = EmailMessage(
        subject=" ".join(subject.split())[:200],
        body="\n".join(parts),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=list(settings.DALSTON_ALERT_EMAILS),
        headers={"Auto-Submitted": "auto-generated"},
    )
    message.send()
    _mark(rows, field)


def _paragraph(row: AlertState, word: str) -> str:
    alert = BY_NAME.get(row.name)
    limit = f"  threshold: {alert.shown_limit()}\n" if alert else ""
    what_to_do = f"  what to do: {runbook_url(row)}\n" if alert else ""
    since = f"  since {row.since:%Y-%m-%d %H:%M:%S} UTC\n"
    return f"{word} ({row.severity}) {row.name}\n  {row.text}\n{since}{limit}{what_to_do}"


def runbook_url(row: AlertState) -> str:
    alert = BY_NAME.get(row.name)
    base = settings.DALSTON_PUBLIC_URL.rstrip("/")
    return f"{base}/alerts/{alert.slug}/" if alert else base


def _call(rows: Sequence[AlertState], field: str) -> None:
    """One POST per alert; those that were taken are not sent again, whatever happens to the rest."""
    try:
        target = read_target(settings.DALSTON_ALERT_WEBHOOK_URL, allowed_networks())
    except InvalidCallback as error:
        raise NotNotified(str(error)) from None
    headers = {"Content-Type": "application/json", "User-Agent": "Dalston"}
    if settings.DALSTON_ALERT_WEBHOOK_TOKEN:
        headers["Authorization"] = f"Bearer {settings.DALSTON_ALERT_WEBHOOK_TOKEN}"
    for row in rows:
        outcome = send(
            target,
            headers,
            json.dumps(document_of(row)).encode(),
            timeout_s=settings.DALSTON_WEBHOOK_TIMEOUT_S,
            allowed=allowed_networks(),
        )
        if isinstance(outcome, NotDelivered):
            raise NotNotified(f"the webhook of alerts: {outcome.why}")
        _mark([row], field)


def document_of(row: AlertState) -> dict[str, object]:
    return {
        "id": row.pk,
        "status": status_of(row),
        "alert": row.name,
        "severity": row.severity,
        "subject": row.subject,
        "value": row.value,
        "summary": row.text,
        "since": row.since.isoformat(),
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "runbook": runbook_url(row),
    }
