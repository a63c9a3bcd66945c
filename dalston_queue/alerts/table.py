"""The table of alerts. Prometheus evaluates `promql`, we evaluate `measure`; both compare with the same threshold.

The thresholds of deploy/prometheus/alerts.yml are the defaults of the settings; ours are the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from dalston_queue.alerts import measures
from dalston_queue.alerts.facts import MIN_ATTEMPTS, Facts
from dalston_queue.models.alert import slug_of

Values = Mapping[str, float]
"""By subject: a queue, a duty, a node; empty for the whole installation."""


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True)
class Alert:
    name: str  # as in alerts.yml, and of its runbook
    severity: Severity
    summary: str  # a sentence with {subject} and {value}, right for one and for many; Prometheus fills in the same
    promql: str  # the value, by the labels of the subject
    labels: tuple[str, ...]  # of the subject
    measure: Callable[[Facts], Values | None]  # the same value, by subject; None: not known now
    threshold: str | float  # a setting or a number
    for_s: str | float = 0  # how long it must hold: a setting or a number
    is_below: bool = False  # it fires below the threshold, not above
    percent: bool = False  # the value is a share

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @property
    def limit(self) -> float:
        return number_of(self.threshold)

    @property
    def hold_s(self) -> float:
        return number_of(self.for_s)

    def holds(self, value: float) -> bool:
        return value < self.limit if self.is_below else value > self.limit

    def sentence(self, subject: str, value: float) -> str:
        shown = f"{100 * value:.0f} %" if self.percent else f"{value:.0f}" if value >= 10 else f"{value:.3g}"
        return self.summary.format(subject=subject, value=shown)

    def shown_limit(self) -> str:
        limit = f"{100 * self.limit:g} %" if self.percent else f"{self.limit:g}"
        held = f" for {self.hold_s:g} s" if self.hold_s else ""
        return f"{'below' if self.is_below else 'above'} {limit}{held}"


def number_of(value: str | float) -> float:
    return float(getattr(settings, value)) if isinstance(value, str) else value


_ENDED = 'dalston_task_state_transitions_total{to="completed"}'
_DEPTH = "max by (stage, priority) (dalston_queue_depth)"
_PER_MINUTE = "sum(rate({}[5m])) * 60"
_OF_REDIS_PER_MINUTE = "sum(max by (stage) (rate({}[5m]))) * 60"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "DalstonNoActiveWorkers",
        Severity.CRITICAL,
        "No engine is ready: nothing can run.",
        'max(dalston_workers_total{status="ready"})',
        (),
        measures.ready_workers,
        1,
        "DALSTON_ALERT_NO_WORKERS_S",
        is_below=True,
    ),
    Alert(
        "DalstonHighPriorityQueueDeep",
        Severity.CRITICAL,
        "Waiting tasks of high priority: {value}.",
        'sum(max by (stage) (dalston_queue_depth{priority="high"}))',
        (),
        measures.high_depth,
        "DALSTON_ALERT_HIGH_DEPTH",
    ),
    Alert(
        "DalstonFailureRateHigh",
        Severity.CRITICAL,
        "{value} of the attempts of the last 5 min failed.",
        "(sum(increase(dalston_tasks_failed_total[5m])) / "
        f"(sum(increase(dalston_tasks_failed_total[5m])) + sum(increase({_ENDED}[5m])))) "
        f"and (sum(increase(dalston_tasks_failed_total[5m])) + sum(increase({_ENDED}[5m])) >= {MIN_ATTEMPTS})",
        (),
        measures.failure_rate,
        "DALSTON_ALERT_FAILURE_RATE",
        percent=True,
    ),
    Alert(
        "DalstonDeadLettersGrow",
        Severity.CRITICAL,
        "New dead letters a minute: {value}.",
        _PER_MINUTE.format("dalston_tasks_dlq_total"),
        (),
        measures.dead_letters_per_minute,
        "DALSTON_ALERT_DEAD_LETTERS_PER_MINUTE",
    ),
    Alert(
        "DalstonNoLeader",
        Severity.CRITICAL,
        "No orchestrator leads: dead engines are not noticed.",
        'max(dalston_leader{role="orchestrator"})',
        (),
        measures.leader,
        1,
        "DALSTON_ALERT_NO_LEADER_S",
        is_below=True,
    ),
    Alert(
        "DalstonRedisAway",
        Severity.CRITICAL,
        "Redis does not answer, or no process is scraped that would know: nothing is dispatched.",
        "max(dalston_redis_up) or vector(0)",
        (),
        measures.redis_up,
        1,
        60,
        is_below=True,
    ),
    Alert(
        "DalstonPostgresAway",
        Severity.CRITICAL,
        "Postgres does not answer, or no process is scraped that would know: nothing is accepted.",
        "max(dalston_postgres_up) or vector(0)",
        (),
        measures.postgres_up,
        1,
        60,
        is_below=True,
    ),
    Alert(
        "DalstonQueueStalled",
        Severity.CRITICAL,
        "Queue {subject}: tasks wait ({value}), and no attempt has ended.",
        f"(sum by (stage) ({_DEPTH}) unless on (stage) (max by (stage) (dalston_queue_paused) > 0)) "
        "unless on (stage) (sum by (stage) (max by (stage, outcome) (increase(dalston_queue_attempts_total[5m]))) > 0)",
        ("stage",),
        measures.stalled,
        0,
        "DALSTON_ALERT_STALLED_S",
    ),
    Alert(
        "DalstonWorkersBusy",
        Severity.WARNING,
        "{value} of the slots of all engines are used.",
        "max(dalston_worker_capacity_used_ratio)",
        (),
        measures.utilisation,
        "DALSTON_ALERT_UTILISATION",
        600,
        percent=True,
    ),
    Alert(
        "DalstonLowPriorityWaits",
        Severity.WARNING,
        "Queue {subject}: a task of low priority has waited {value} s. Promotion does not work.",
        'max by (stage) (dalston_queue_age_seconds{priority="low",percentile="oldest"})',
        ("stage",),
        measures.oldest_low,
        "DALSTON_ALERT_LOW_WAIT_S",
    ),
    Alert(
        "DalstonQueueDeep",
        Severity.WARNING,
        "Queue {subject}: tasks wait ({value}).",
        _DEPTH,
        ("stage", "priority"),
        measures.depths,
        "DALSTON_ALERT_DEPTH",
    ),
    Alert(
        "DalstonHighPriorityWaits",
        Severity.WARNING,
        "Queue {subject}: a task of high priority has waited {value} s.",
        'max by (stage) (dalston_queue_age_seconds{priority="high",percentile="oldest"})',
        ("stage",),
        measures.oldest_high,
        "DALSTON_ALERT_HIGH_WAIT_S",
    ),
    Alert(
        "DalstonQueueAgeHigh",
        Severity.WARNING,
        "Queue {subject}: 1 of 20 waiting tasks has waited {value} s.",
        'max by (stage, priority) (dalston_queue_age_seconds{percentile="p95"})',
        ("stage", "priority"),
        measures.ages_p95,
        "DALSTON_ALERT_AGE_P95_S",
    ),
    Alert(
        "DalstonRetriesHigh",
        Severity.WARNING,
        "Retries in the last 5 min: {value} of the completed tasks.",
        f"(sum(increase(dalston_task_retries_total[5m])) / sum(increase({_ENDED}[5m]))) "
        f"and (sum(increase({_ENDED}[5m])) >= {MIN_ATTEMPTS})",
        (),
        measures.retry_rate,
        "DALSTON_ALERT_RETRY_RATE",
        300,
        percent=True,
    ),
    Alert(
        "DalstonBreakersOpen",
        Severity.WARNING,
        "Engines with an open circuit breaker: {value}.",
        "sum(max by (state) (dalston_worker_breakers_open))",
        (),
        measures.breakers,
        "DALSTON_ALERT_BREAKERS",
    ),
    Alert(
        "DalstonWorkersUnhealthy",
        Severity.WARNING,
        "{value} of the engines are unhealthy.",
        'max(dalston_workers_total{status="unhealthy"}) / sum(max by (status) (dalston_workers_total))',
        (),
        measures.unhealthy,
        "DALSTON_ALERT_UNHEALTHY_RATIO",
        60,
        percent=True,
    ),
    Alert(
        "DalstonProbesFail",
        Severity.WARNING,
        "Health probes that fail a minute: {value}.",
        _PER_MINUTE.format("dalston_worker_health_probe_failures_total"),
        (),
        measures.probe_failures_per_minute,
        "DALSTON_ALERT_PROBE_FAILURES_PER_MINUTE",
    ),
    Alert(
        "DalstonRecoveries",
        Severity.WARNING,
        "Tasks a minute that are reclaimed from dead engines: {value}.",
        _OF_REDIS_PER_MINUTE.format("dalston_task_recovery_total"),
        (),
        measures.recoveries_per_minute,
        "DALSTON_ALERT_RECOVERIES_PER_MINUTE",
    ),
    Alert(
        "DalstonResultsRefused",
        Severity.WARNING,
        "Refused results a minute: {value}.",
        _OF_REDIS_PER_MINUTE.format("dalston_results_refused_total"),
        (),
        measures.refused_per_minute,
        "DALSTON_ALERT_REFUSED_PER_MINUTE",
    ),
    Alert(
        "DalstonDutyLate",
        Severity.WARNING,
        "The duty {subject} is late by {value} s.",
        "max by (duty) (dalston_duty_overdue_seconds)",
        ("duty",),
        measures.overdue_duties,
        0,
    ),
    Alert(
        "DalstonEnginesCrashLoop",
        Severity.WARNING,
        "Engines in a crash loop: {value}. None of them is started again for a while.",
        'max(dalston_workers_total{status="crashloop"})',
        (),
        measures.crash_loops,
        0,
    ),
    Alert(
        "DalstonDiskFilling",
        Severity.WARNING,
        "Node {subject}: {value} of the disk with logs and artifacts is used.",
        "max by (node) (dalston_disk_used_ratio)",
        ("node",),
        measures.disks,
        "DALSTON_ALERT_DISK_USED_RATIO",
        60,
        percent=True,
    ),
    Alert(
        "DalstonDeadLettersOfOneCause",
        Severity.WARNING,
        "Open dead letters of one day with the cause {subject}: {value}.",
        "max by (reason) (dalston_dead_letters_open)",
        ("reason",),
        measures.dead_letters_by_cause,
        "DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE",
    ),
    Alert(
        "DalstonDeadLettersRetriable",
        Severity.WARNING,
        "Open dead letters of one day that may pass if replayed: {value}.",
        "max(dalston_dead_letters_retriable)",
        (),
        measures.retriable,
        "DALSTON_ALERT_DEAD_LETTERS_RETRIABLE",
    ),
)

BY_NAME: Mapping[str, Alert] = {alert.name: alert for alert in ALERTS}
BY_SLUG: Mapping[str, Alert] = {alert.slug: alert for alert in ALERTS}
