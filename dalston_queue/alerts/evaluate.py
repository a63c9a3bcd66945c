"""Evaluates the table and stores what stands. Any process may call `run`; one works at a time, at most every 10 s.

Each orchestrator has a thread that does it, and housekeeping does it once a minute: so a late duty is noticed while
housekeeping is dead, and a missing leader while all orchestrators are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.db import Error, connection, transaction
from django.utils import timezone

from dalston_queue.alerts.decide import Standing, decide
from dalston_queue.alerts.facts import Facts, read_facts
from dalston_queue.alerts.notify import send_due
from dalston_queue.alerts.table import ALERTS, BY_NAME, Alert
from dalston_queue.database import drop_broken_connection
from dalston_queue.health import outages
from dalston_queue.models import AlertState, Duty
from dalston_queue.orchestrator.duties.report import Report, record_run

log = structlog.get_logger(__name__)

INTERVAL_S = 15.0
PAUSE_S = 10.0
DUTY = "alerts"

# Of the session: the lock is held while mails are sent, outside of any transaction.
_LOCK = "SELECT pg_try_advisory_lock(hashtext('dalston_alerts'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('dalston_alerts'))"


def watch(holder: str, wait: Callable[[float], bool]) -> None:
    """Evaluate until `wait`, which sleeps for so many seconds, returns True."""
    while not wait(INTERVAL_S):
        try:
            run(timezone.now(), holder)
        except Error as error:
            if not outages.report(error):
                log.warning("alerts wait for postgres", error=str(error))
            drop_broken_connection()
    connection.close()


def run(now: datetime, holder: str) -> bool:
    """One evaluation, unless another process has just done it. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
        if not cursor.fetchone()[0]:
            return False
    try:
        if Duty.objects.filter(name=DUTY, last_run_at__gt=now - timedelta(seconds=PAUSE_S)).exists():
            return False
        clock = time.monotonic()
        problem = ""
        standing = evaluate(read_facts(now))
        try:
            send_due(timezone.now())
        except OSError as error:
            problem = f"{type(error).__name__}: {error}"[:500]
        report = Report()
        report.note("firing", standing, repaired=False)
        took_ms = int((time.monotonic() - clock) * 1000)
        record_run(DUTY, now, took_ms, report, problem, every_s=INTERVAL_S, holder=holder)
        return True
    finally:
        with connection.cursor() as cursor:
            cursor.execute(_UNLOCK)


@transaction.atomic
def evaluate(facts: Facts) -> int:
    """Store what stands by these facts; returns how many alerts fire."""
    rows: dict[str, dict[str, AlertState]] = {alert.name: {} for alert in ALERTS}
    for row in AlertState.objects.filter(ended_at=None):
        if row.name in rows:
            rows[row.name][row.subject] = row
        else:  # of an earlier version
            _end(row, facts.at)
    firing = 0
    for alert in ALERTS:
        firing += _evaluate_one(alert, rows[alert.name], facts)
    return firing


def _evaluate_one(alert: Alert, rows: dict[str, AlertState], facts: Facts) -> int:
    before = {
        subject: Standing(subject, row.value, row.since, row.held_at, row.fired_at) for subject, row in rows.items()
    }
    after = decide(alert, alert.measure(facts), before, facts.at)
    for subject, row in rows.items():
        if subject not in after:
            _end(row, facts.at)
    for subject, standing in after.items():
        existing = rows.get(subject)
        state = existing or AlertState(name=alert.name, subject=subject)
        state.severity, state.value, state.since = alert.severity, standing.value, standing.since
        state.held_at, state.text = standing.held_at, alert.sentence(subject, standing.value)
        if standing.fired_at and state.fired_at is None:
            log.warning("an alert fires", alert=alert.name, subject=subject, value=standing.value)
        state.fired_at = standing.fired_at
        state.save()
    return sum(standing.fired_at is not None for standing in after.values())


def _end(row: AlertState, now: datetime) -> None:
    """One that never fired leaves no trace."""
    if row.fired_at is None:
        row.delete()
        return
    log.info("an alert ended", alert=row.name, subject=row.subject)
    row.ended_at = now
    row.save(update_fields=["ended_at"])


def known(row: AlertState) -> Alert | None:
    """The alert of a row; None for one of an earlier version."""
    return BY_NAME.get(row.name)
