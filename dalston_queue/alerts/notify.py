"""Notifies of what fires and what ended: a mail for all that changed, a POST to a webhook for each.

At least once: a row remembers for each channel what it was notified of, and is sent again until that worked, for a day
after its end. The channels know nothing of each other. A row is claimed by a committed UPDATE before it is sent, and no
connection to Postgres is held meanwhile: any process may send, and what a dead one claimed is sent again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q, QuerySet

from dalston_queue.alerts.evaluate import watch
from dalston_queue.alerts.table import BY_NAME
from dalston_queue.database import release_connection
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.attempt import NotDelivered, send
from dalston_queue.jobs.webhooks.deliveries import allowed_networks
from dalston_queue.jobs.webhooks.target import read_target
from dalston_queue.models import AlertState, Duty
from dalston_queue.orchestrator.duties.report import Report, record_run

log = structlog.get_logger(__name__)

FIRING, ENDED = "firing", "ended"
MAX_AGE = timedelta(days=1)
FIRST_RETRY_S, LAST_RETRY_S = 30, 900
BATCH = 100
LEASE = timedelta(minutes=2)
"""Of a row that is being sent: longer than any message takes."""
RUN_S = 20.0
"""No POST begins later in a run, and none takes longer."""
MAIL_TIMEOUT_S = 30.0
"""Of a mail after the connection was made. Each of its steps has a timeout of its own: EMAIL_TIMEOUT."""
DUTY = "notifications"
EVERY_S = 30.0

Pause = Callable[[float], bool]


class NotNotified(OSError):
    """A channel did not take it; it is sent again later."""


@dataclass(frozen=True, slots=True)
class Channel:
    name: str
    notified: str  # fields of AlertState: what the channel was notified of last,
    failures: str  # failures in a row since then,
    next_at: str  # and when it is tried again, or how long it is being sent
    is_used: Callable[[], bool]
    at_once: int  # rows in a message
    send: Callable[[Sequence[AlertState]], None]  # raises OSError

    def notice_of(self, row: AlertState) -> str:
        """What to send: FIRING or ENDED. A mail tells of both in one; else each has a message, in their order."""
        return FIRING if self.at_once == 1 and not getattr(row, self.notified) else status_of(row)


@dataclass(frozen=True, slots=True)
class Sent:
    alerts: int
    problem: str  # why a channel did not take all; empty if each did


def watch_due(holder: str, wait: Pause) -> None:
    """Send what is due until `wait`, which sleeps for so many seconds, returns True."""
    watch(partial(run, pause=wait), holder, wait)


def run(now: datetime, holder: str, pause: Pause = lambda _: False) -> None:
    """Send what is due, and record that as a duty. Raises django.db.Error."""
    clock = time.monotonic()
    sent = send_due(now, pause)
    problem = sent.problem
    if not problem and any(_pending(each, now).filter(**{f"{each.failures}__gt": 0}).exists() for each in CHANNELS):
        problem = Duty.objects.filter(name=DUTY).values_list("last_error", flat=True).first() or ""
    report = Report()
    report.note("sent", sent.alerts, repaired=False)
    took_ms = int((time.monotonic() - clock) * 1000)
    record_run(DUTY, now, took_ms, report, problem, every_s=EVERY_S, holder=holder)
    release_connection()


def send_due(now: datetime, pause: Pause = lambda _: False) -> Sent:
    """Send what no channel has yet. `pause(0)` after each message says whether to stop."""
    count, problems = 0, []
    for channel in CHANNELS:
        _skip(channel, now)
        end = time.monotonic() + RUN_S
        while time.monotonic() < end and (rows := _claim(channel, now)):
            release_connection()
            try:
                channel.send(rows)
            except OSError as error:
                log.warning("an alert could not be sent", channel=channel.name, alerts=len(rows), error=str(error))
                problems.append(f"{channel.name}: {error}")
                _failed(channel, rows, now)
                end = 0.0
            else:
                count += len(rows)
                _mark(channel, rows)
            if pause(0):
                return Sent(count, "; ".join(problems)[:500])
    return Sent(count, "; ".join(problems)[:500])


def status_of(row: AlertState) -> str:
    return ENDED if row.ended_at else FIRING


def _pending(channel: Channel, now: datetime) -> QuerySet[AlertState]:
    notified = channel.notified
    return AlertState.objects.filter(fired_at__isnull=False).filter(
        Q(ended_at=None) & ~Q(**{notified: FIRING}) | Q(ended_at__gt=now - MAX_AGE) & ~Q(**{notified: ENDED})
    )


def _skip(channel: Channel, now: datetime) -> None:
    """Mark what is not sent: muted alerts, or all of a channel without an address."""
    rows = _pending(channel, now)
    if channel.is_used():
        rows = rows.filter(name__in=settings.DALSTON_ALERTS_MUTED)
    for row in rows[:BATCH]:
        fields = {channel.notified: status_of(row), channel.failures: 0, channel.next_at: None}
        AlertState.objects.filter(pk=row.pk).update(**fields)


@transaction.atomic
def _claim(channel: Channel, now: datetime) -> list[AlertState]:
    """Rows for the next message, the critical ones first. They are not due for anyone until their lease ends."""
    if not channel.is_used():
        return []
    due = Q(**{channel.next_at: None}) | Q(**{f"{channel.next_at}__lte": now})
    found = _pending(channel, now).filter(due).exclude(name__in=settings.DALSTON_ALERTS_MUTED)
    rows = list(found.order_by("severity", "id").select_for_update(skip_locked=True, no_key=True)[: channel.at_once])
    for row in rows:
        setattr(row, channel.next_at, now + LEASE)
    AlertState.objects.filter(pk__in=[row.pk for row in rows]).update(**{channel.next_at: now + LEASE})
    return rows


def _mark(channel: Channel, rows: Sequence[AlertState]) -> None:
    for row in rows:
        _settle(channel, row, **{channel.notified: channel.notice_of(row), channel.failures: 0, channel.next_at: None})


def _failed(channel: Channel, rows: Sequence[AlertState], now: datetime) -> None:
    for row in rows:
        failures: int = getattr(row, channel.failures)
        next_at = now + timedelta(seconds=min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 10)))
        _settle(channel, row, **{channel.failures: min(failures + 1, 1000), channel.next_at: next_at})


def _settle(channel: Channel, row: AlertState, **fields: object) -> None:
    """One row at a time: an evaluation locks several of them, in another order. No row: the lease ended, and another
    process has claimed it since."""
    claimed = {"pk": row.pk, channel.next_at: getattr(row, channel.next_at)}
    AlertState.objects.filter(**claimed).update(**fields)


def _mail(rows: Sequence[AlertState]) -> None:
    firing = [row for row in rows if status_of(row) == FIRING]
    ended = [row for row in rows if status_of(row) == ENDED]
    worst = "critical" if any(row.severity == "critical" for row in firing) else "warning"
    subject = f"[Dalston] {worst}: {firing[0].text}" if firing else f"[Dalston] ended: {ended[0].text}"
    if len(rows) > 1:
        subject += f" And {len(rows) - 1} more."
    parts = [_paragraph(row, "FIRING") for row in firing] + [_paragraph(row, "ENDED") for row in ended]
    server = get_connection()
    message = EmailMessage(
        subject=" ".join(subject.split())[:200],
        body="\n".join(parts),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=list(settings.DALSTON_ALERT_EMAILS),
        headers={"Auto-Submitted": "auto-generated"},
        connection=server,
    )
    end = time.monotonic() + MAIL_TIMEOUT_S
    # A server that is slow in each of its steps would hold the thread for minutes.
    alarm = threading.Timer(MAIL_TIMEOUT_S, _cut, [server])
    alarm.daemon = True
    alarm.start()
    try:
        message.send()
    except OSError as error:
        late = time.monotonic() >= end
        raise NotNotified(f"not taken within {MAIL_TIMEOUT_S:g} s" if late else str(error)) from None
    finally:
        alarm.cancel()


def _cut(server: object) -> None:
    """Called from another thread: whatever waits for the mail server fails now."""
    smtp = getattr(server, "connection", None)
    if smtp is not None and smtp.sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)


def _paragraph(row: AlertState, word: str) -> str:
    alert = BY_NAME.get(row.name)
    limit = f"  threshold: {alert.shown_limit()}\n" if alert else ""
    what_to_do = f"  what to do: {runbook_url(row)}\n" if alert else ""
    until = f" until {row.ended_at:%Y-%m-%d %H:%M:%S} UTC" if row.ended_at else ""
    since = f"  since {row.since:%Y-%m-%d %H:%M:%S} UTC{until}\n"
    return f"{word} ({row.severity}) {row.name}\n  {row.text}\n{since}{limit}{what_to_do}"


def runbook_url(row: AlertState) -> str:
    alert = BY_NAME.get(row.name)
    base = settings.DALSTON_PUBLIC_URL.rstrip("/")
    return f"{base}/alerts/{alert.slug}/" if alert else base


def _call(rows: Sequence[AlertState]) -> None:
    [row] = rows
    try:
        target = read_target(settings.DALSTON_ALERT_WEBHOOK_URL, allowed_networks())
    except InvalidCallback as error:
        raise NotNotified(str(error)) from None
    headers = {"Content-Type": "application/json", "User-Agent": "Dalston"}
    if settings.DALSTON_ALERT_WEBHOOK_TOKEN:
        headers["Authorization"] = f"Bearer {settings.DALSTON_ALERT_WEBHOOK_TOKEN}"
    outcome = send(
        target,
        headers,
        json.dumps(document_of(row, WEBHOOK.notice_of(row))).encode(),
        timeout_s=min(settings.DALSTON_WEBHOOK_TIMEOUT_S, RUN_S),
        allowed=allowed_networks(),
    )
    if isinstance(outcome, NotDelivered):
        raise NotNotified(outcome.why)


def document_of(row: AlertState, status: str) -> dict[str, object]:
    return {
        "id": row.pk,
        "status": status,
        "alert": row.name,
        "severity": row.severity,
        "subject": row.subject,
        "value": row.value,
        "summary": row.text,
        "since": row.since.isoformat(),
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "runbook": runbook_url(row),
    }


MAIL = Channel(
    "mail", "mailed", "mail_failures", "mail_next_at", lambda: bool(settings.DALSTON_ALERT_EMAILS), BATCH, _mail
)
WEBHOOK = Channel(
    "webhook", "called", "call_failures", "call_next_at", lambda: bool(settings.DALSTON_ALERT_WEBHOOK_URL), 1, _call
)
CHANNELS = (MAIL, WEBHOOK)
