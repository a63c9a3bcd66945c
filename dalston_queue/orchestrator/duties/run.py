"""Runs the recurring duties that are due, in the housekeeping process that leads.

The process holds the role's lease while duties run, and releases it. Each run is recorded, with what it repaired or the
error it ended with. A duty that raises doesn't stop the others; it is due again after a minute, or its interval if that
is shorter, and its failures are counted.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from dalston_queue.broker.protocol.types import Role
from dalston_queue.health import outages
from dalston_queue.health.loops import HOUSEKEEPING
from dalston_queue.metrics.processes import DUTY_RUNS
from dalston_queue.models import Duty
from dalston_queue.orchestrator.duties import housekeeping
from dalston_queue.orchestrator.duties.artifacts import count_and_delete
from dalston_queue.orchestrator.duties.housekeeping import check_audit
from dalston_queue.orchestrator.duties.lanes import count_depth, forget_unused
from dalston_queue.orchestrator.duties.reconciler import reconcile
from dalston_queue.orchestrator.duties.report import Report, record_run
from dalston_queue.orchestrator.duties.samples import take_samples
from dalston_queue.orchestrator.duties.scanner import scan
from dalston_queue.orchestrator.leadership import Leadership, process_name

log = structlog.get_logger(__name__)


RETRY_S = 60.0
"""After a failure. The hourly duties read much: each tick of a timer of seconds would be too often."""


@dataclass(frozen=True, slots=True)
class DutySpec:
    name: str
    every_s: Callable[[], float]
    run: Callable[[datetime], Report]


DUTIES: tuple[DutySpec, ...] = (
    DutySpec("scanner", lambda: settings.DALSTON_SCAN_INTERVAL_S, lambda _now: scan()),
    DutySpec("reconciler", lambda: settings.DALSTON_SCAN_INTERVAL_S, lambda _now: reconcile()),
    DutySpec("ageing", lambda: settings.DALSTON_PROMOTE_INTERVAL_S, housekeeping.promote_tasks),
    DutySpec("samples", lambda: 60.0, take_samples),
    DutySpec("registry", lambda: 60.0, housekeeping.mirror_registry),
    DutySpec("lanes", lambda: 60.0, forget_unused),
    DutySpec("depth", lambda: 3600.0, count_depth),
    DutySpec("expiry", lambda: 3600.0, housekeeping.delete_expired),
    DutySpec("artifacts", lambda: 60.0, count_and_delete),
    DutySpec("dead-letter digest", lambda: 3600.0, housekeeping.digest_dead_letters),
    DutySpec("audit", lambda: 3600.0, check_audit),
)


def run_due_duties() -> list[str]:
    """Run the due duties, if this process can lead; returns the names of those that succeeded."""
    if not due(timezone.now()):
        return []
    # A token per run: two workers of one process must not take each other's lease for their own.
    leadership = Leadership(Role.HOUSEKEEPING, process_name(), brief=True)
    if not leadership.keep():
        return []
    with _Renewed(leadership):
        return [spec.name for spec in due(timezone.now()) if leadership.held and run_duty(spec, leadership.token)]


def due(now: datetime) -> list[DutySpec]:
    """Duties whose interval has passed."""
    rows = {row.name: row for row in Duty.objects.all()}
    return [
        spec
        for spec in DUTIES
        if (row := rows.get(spec.name)) is None or now >= row.last_run_at + _pause(spec, failed=bool(row.last_error))
    ]


def _pause(spec: DutySpec, *, failed: bool) -> timedelta:
    """A tenth less than the interval, at most 5 s: huey and the timer wake us about in time, not to the second."""
    every_s = min(spec.every_s(), RETRY_S) if failed else spec.every_s()
    return timedelta(seconds=every_s - min(every_s / 10, 5.0))


def run_duty(spec: DutySpec, holder: str) -> bool:
    """Run one duty and record it; False if it failed."""
    HOUSEKEEPING.mark()
    started, clock = timezone.now(), time.monotonic()
    report, problem = Report(), ""
    try:
        report = spec.run(started)
    except Exception as error:  # recorded and shown; the other duties go on
        if not outages.report(error):
            log.exception("a duty failed", duty=spec.name)
        problem = f"{type(error).__name__}: {error}"
    took_ms = int((time.monotonic() - clock) * 1000)
    DUTY_RUNS.labels(spec.name, "failed" if problem else "ok").inc()
    record_run(spec.name, started, took_ms, report, problem, every_s=spec.every_s(), holder=holder)
    if report.repaired:
        log.info("a duty repaired something", duty=spec.name, repaired=report.repaired, found=dict(report.found))
    return not problem


class _Renewed:
    """Renews the lease while the duties run, however long one takes; releases it after the last."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._leadership.resign()

    def _renew(self) -> None:
        while not self._done.wait(settings.DALSTON_LEADER_TTL_S / 3):
            self._leadership.renew()
