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
from dalston_queue.alerts.table import ALERTS, BY_NAME, Alert
from dalston_queue.database import drop_broken_connection
from dalston_queue.health import outages
from dalston_queue.models import AlertState, Duty
from dalston_queue.orchestrator.duties.report import Report, record_run

log = structlog.get_logger(__name__)

INTERVAL_S = 15.0
PAUSE_S = 10.0
DUTY = "alerts"

# Of the transaction: a lock of the session would be lost, or stay, with a connection that goes back to its pool.
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('dalston_alerts'))"


def watch(work: Callable[[datetime, str], object], holder: str, wait: Callable[[float], bool]) -> None:
    """Call `work` with the time and the holder until `wait`, which sleeps for so many seconds, returns True."""
    while not wait(INTERVAL_S):
        try:
            work(timezone.now(), holder)
        except Error as error:
            if not outages.report(error):
                log.warning("alerts wait for postgres", error=str(error))
            drop_broken_connection()
    connection.close()


def run(now: datetime, holder: str) -> bool:
    """One evaluation, unless another process has just done it. Raises django.db.Error."""
    if _is_recent(now):
        return False
    clock = time.monotonic()
    facts = read_facts(now)  # takes its connections from the pool, and gives them back: before the lock
    with transaction.atomic():
        if not _locked() or _is_recent(now):
            return False
        report = Report()
        report.note("firing", evaluate(facts), repaired=False)
        took_ms = int((time.monotonic() - clock) * 1000)
        record_run(DUTY, now, took_ms, report, every_s=INTERVAL_S, holder=holder)
    return True


def _is_recent(now: datetime) -> bool:
    return Duty.objects.filter(name=DUTY, last_run_at__gt=now - timedelta(seconds=PAUSE_S)).exists()


def _locked() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
        return bool(cursor.fetchone()[0])


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


_DECIDED = ["severity", "value", "since", "held_at", "text", "fired_at"]
"""Of a standing alert. The other fields are those of notify.py, which may write them at the same time."""


def _evaluate_one(alert: Alert, rows: dict[str, AlertState], facts: Facts) -> int:
    before = {
        subject: Standing(subject, row.value, row.since, row.held_at, row.fired_at) for subject, row in rows.items()
    }
    after = decide(alert, alert.measure(facts), before, facts.at)
    for subject, row in rows.items():
        if subject not in after:
            _end(row, facts.at)
    for subject, standing in after.items():
        state = rows.get(subject) or AlertState(name=alert.name, subject=subject)
        state.severity, state.value, state.since = alert.severity, standing.value, standing.since
        state.held_at, state.text = standing.held_at, alert.sentence(subject, standing.value)
        if standing.fired_at and state.fired_at is None:
            log.warning("an alert fires", alert=alert.name, subject=subject, value=standing.value)
        state.fired_at = standing.fired_at
        state.save(update_fields=_DECIDED if state.pk else None)
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
