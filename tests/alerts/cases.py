"""Of each alert a case that fires and one that does not: as series for `promtool test rules`, and as facts for us."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dalston_queue.alerts.facts import Facts, Grown
from dalston_queue.broker.protocol.types import EngineState, NodeState, Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Snapshot
from dalston_queue.dashboard.overview.values import DutyLine, EngineLine, InPostgres, InRedis, NodeLine, Overview
from dalston_queue.metrics.reading import FromPostgres, Reading

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
Series = Mapping[str, str]
"""By series its values, as promtool writes them, a minute apart."""


@dataclass(frozen=True)
class Case:
    fires: Series
    silent: Series
    at: str  # when both are evaluated
    our_fires: Facts
    our_silent: Facts


def engine(state: EngineState = EngineState.READY, running: int = 0, **more: Any) -> EngineLine:
    return EngineLine("n.demo.0.b", "n", state, ("echo",), (), 10, "", running=running, **more)


def lane(tier: Tier = Tier.MEDIUM, waiting: int = 0) -> LaneStats:
    return LaneStats(
        queue="echo", capabilities="", tier=tier, stream="s", shard=0, length=waiting, pending=0, lag=waiting,
        consistent=True, consumers=1, oldest_age_ms=None, added=waiting, removed=0,
    )  # fmt: skip


def facts(
    *,
    engines: Sequence[EngineLine] = (),
    lanes: Sequence[LaneStats] = (),
    led: bool = True,
    paused: bool = False,
    duty_age_s: float = 0.0,
    disk: float | None = None,
    ages: Mapping[tuple[str, str, str], float] | None = None,
    dead_letters: Mapping[str, int] | None = None,
    retriable: int = 0,
    grown: Mapping[str, float] | None = None,
    probe_failures: float = 0.0,
    made: int = 0,
    retries: int = 0,
    redis_up: bool = True,
    postgres_up: bool = True,
) -> Facts:
    queue = QueueStats(queue="echo", lanes=list(lanes), running=0, events_backlog=0, paused=paused, counters={})
    snapshot = Snapshot(at_ms=0, queues=[queue])
    node = NodeLine("n", NodeState.ACTIVE, tuple(engines), disk_used=disk)
    redis = InRedis(snapshot=snapshot, lanes=(), nodes=(node,), is_led=led, rates={})
    duty = DutyLine("scanner", 60.0, NOW - timedelta(seconds=duty_age_s), "")
    overview = Overview(NOW, redis if redis_up else None, InPostgres((), 0, (duty,)) if postgres_up else None)
    postgres = FromPostgres(
        states={}, webhooks=0, dead_letters=dead_letters or {}, retriable=retriable, ages=ages or {}
    )
    return Facts(
        at=NOW,
        reading=Reading(overview, postgres),
        queues={} if grown is None else {"echo": Grown(grown, 300.0)},
        probe_failures=Grown({"probe_failures": probe_failures}, 300.0),
        dead_letters=made,
        retries=retries,
    )


def gauge(name: str, value: float, minutes: int = 20) -> Series:
    return {name: f"{value:g}+0x{minutes}"}


def rate(name: str, per_minute: float) -> Series:
    return {name: f"0+{per_minute:g}x20"}


def _of_a_gauge(name: str, fires: float, silent: float, our: Callable[[float], Facts], at: str = "5m") -> Case:
    return Case(gauge(name, fires), gauge(name, silent), at, our(fires), our(silent))


COMPLETED = 'dalston_task_state_transitions_total{from="running",to="completed"}'
FAILED = 'dalston_tasks_failed_total{priority="low",reason="error"}'
RETRIED = 'dalston_task_retries_total{priority="low",reason="error"}'
READY = 'dalston_workers_total{status="ready"}'
STALLED_DEPTH = 'dalston_queue_depth{stage="echo",priority="medium"}'
ATTEMPTS = 'dalston_queue_attempts_total{stage="echo",outcome="completed"}'
NOT_PAUSED = 'dalston_queue_paused{stage="echo"}'


def _age(tier: str, percentile: str) -> Callable[[float], Facts]:
    return lambda age: facts(ages={("echo", tier, percentile): age})


CASES: Mapping[str, Case] = {
    "DalstonNoActiveWorkers": _of_a_gauge(
        READY, 0, 1, lambda count: facts(engines=[engine()] * int(count) + [engine(EngineState.STOPPED)])
    ),
    "DalstonHighPriorityQueueDeep": _of_a_gauge(
        'dalston_queue_depth{stage="echo",priority="high"}',
        1001,
        1000,
        lambda count: facts(lanes=[lane(Tier.HIGH, int(count))]),
    ),
    "DalstonFailureRateHigh": Case(
        {**rate(FAILED, 10), **rate(COMPLETED, 20)},
        {**rate(FAILED, 10), **rate(COMPLETED, 40)},
        "10m",
        facts(grown={"failed": 40, "expired": 10, "completed": 100}),
        facts(grown={"failed": 50, "completed": 200}),
    ),
    "DalstonDeadLettersGrow": Case(
        rate('dalston_tasks_dlq_total{reason="error"}', 11),
        rate('dalston_tasks_dlq_total{reason="error"}', 9),
        "10m",
        facts(made=55),
        facts(made=45),
    ),
    "DalstonNoLeader": _of_a_gauge('dalston_leader{role="orchestrator"}', 0, 1, lambda led: facts(led=bool(led))),
    # Silent, too, while one of several processes can't reach the server; without any process both fire.
    "DalstonRedisAway": Case(
        gauge("dalston_redis_up", 0),
        {**gauge('dalston_redis_up{process="web"}', 0), **gauge('dalston_redis_up{process="orchestrator"}', 1)},
        "5m",
        facts(redis_up=False),
        facts(),
    ),
    "DalstonPostgresAway": Case({}, gauge("dalston_postgres_up", 1), "5m", facts(postgres_up=False), facts()),
    "DalstonQueueStalled": Case(
        {**gauge(STALLED_DEPTH, 3, 40), **gauge(ATTEMPTS, 7, 40), **gauge(NOT_PAUSED, 0, 40)},
        {**gauge(STALLED_DEPTH, 3, 40), ATTEMPTS: "0+1x40", **gauge(NOT_PAUSED, 0, 40)},
        "30m",
        facts(lanes=[lane(waiting=3)], grown={"ran": 0}),
        facts(lanes=[lane(waiting=3)], grown={"ran": 5}),
    ),
    "DalstonWorkersBusy": _of_a_gauge(
        "dalston_worker_capacity_used_ratio",
        0.95,
        0.85,
        lambda share: facts(engines=[engine(running=10)] * 9 + [engine(running=5 if share > 0.9 else 0)]),
        "15m",
    ),
    "DalstonLowPriorityWaits": _of_a_gauge(
        'dalston_queue_age_seconds{stage="echo",priority="low",percentile="oldest"}', 1501, 1499, _age("low", "oldest")
    ),
    "DalstonQueueDeep": _of_a_gauge(STALLED_DEPTH, 5001, 5000, lambda count: facts(lanes=[lane(waiting=int(count))])),
    "DalstonHighPriorityWaits": _of_a_gauge(
        'dalston_queue_age_seconds{stage="echo",priority="high",percentile="oldest"}', 61, 59, _age("high", "oldest")
    ),
    "DalstonQueueAgeHigh": _of_a_gauge(
        'dalston_queue_age_seconds{stage="echo",priority="medium",percentile="p95"}', 601, 599, _age("medium", "p95")
    ),
    "DalstonRetriesHigh": Case(
        {**rate(RETRIED, 4), **rate(COMPLETED, 20)},
        {**rate(RETRIED, 2), **rate(COMPLETED, 20)},
        "15m",
        facts(grown={"completed": 100}, retries=20),
        facts(grown={"completed": 100}, retries=10),
    ),
    "DalstonBreakersOpen": _of_a_gauge(
        'dalston_worker_breakers_open{state="open"}',
        6,
        5,
        lambda count: facts(engines=[engine(EngineState.UNHEALTHY, breaker="open")] * int(count)),
    ),
    "DalstonWorkersUnhealthy": Case(
        {**gauge('dalston_workers_total{status="unhealthy"}', 2), **gauge(READY, 8)},
        {**gauge('dalston_workers_total{status="unhealthy"}', 1), **gauge(READY, 9)},
        "5m",
        facts(engines=[engine(EngineState.UNHEALTHY)] * 2 + [engine()] * 8),
        facts(engines=[engine(EngineState.UNHEALTHY)] + [engine()] * 9),
    ),
    "DalstonProbesFail": Case(
        rate('dalston_worker_health_probe_failures_total{engine="demo.0"}', 11),
        rate('dalston_worker_health_probe_failures_total{engine="demo.0"}', 9),
        "10m",
        facts(probe_failures=55),
        facts(probe_failures=45),
    ),
    "DalstonRecoveries": Case(
        rate('dalston_task_recovery_total{stage="echo"}', 2),
        rate('dalston_task_recovery_total{stage="echo"}', 0.5),
        "10m",
        facts(grown={"recovered": 10}),
        facts(grown={"recovered": 3}),
    ),
    "DalstonResultsRefused": Case(
        rate('dalston_results_refused_total{stage="echo"}', 2),
        rate('dalston_results_refused_total{stage="echo"}', 0.5),
        "10m",
        facts(grown={"refused": 10}),
        facts(grown={"refused": 3}),
    ),
    "DalstonDutyLate": Case(
        gauge('dalston_duty_overdue_seconds{duty="scanner"}', 20),
        gauge('dalston_duty_overdue_seconds{duty="scanner"}', 0),
        "5m",
        facts(duty_age_s=200),
        facts(duty_age_s=170),
    ),
    "DalstonEnginesCrashLoop": _of_a_gauge(
        'dalston_workers_total{status="crashloop"}',
        1,
        0,
        lambda count: facts(engines=[engine(EngineState.CRASHLOOP)] * int(count) + [engine()]),
    ),
    "DalstonDiskFilling": _of_a_gauge('dalston_disk_used_ratio{node="n"}', 0.95, 0.85, lambda share: facts(disk=share)),
    "DalstonDeadLettersOfOneCause": _of_a_gauge(
        'dalston_dead_letters_open{reason="error"}', 51, 50, lambda count: facts(dead_letters={"error": int(count)})
    ),
    "DalstonDeadLettersRetriable": _of_a_gauge(
        "dalston_dead_letters_retriable", 101, 100, lambda count: facts(retriable=int(count))
    ),
}
