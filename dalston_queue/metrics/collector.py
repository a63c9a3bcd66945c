"""Fills the families of `queues` from a reading. What a server that does not answer would tell is absent, not 0."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache

from django.conf import settings
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dalston_queue.broker.engine.breaker import BreakerState
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState, Role
from dalston_queue.broker.views.snapshot import RUNS, QueueStats
from dalston_queue.dashboard.overview.health import overdue_s
from dalston_queue.dashboard.overview.values import EngineLine, InPostgres, InRedis
from dalston_queue.metrics import queues
from dalston_queue.metrics.declare import Family
from dalston_queue.metrics.reading import FromPostgres, Reading, readings

MAX_STAGES = 100
"""Clients make queues by naming them, so the number of label values has an end."""
OTHER = "other"

Values = defaultdict[tuple[str, ...], float]


class QueueCollector(Collector):
    def describe(self) -> list[Metric]:
        return []  # registering must not ask the servers

    def collect(self) -> Iterator[Metric]:
        reading = readings.get()
        overview = reading.overview
        yield queues.REDIS_UP.value(int(overview.redis is not None))
        yield queues.POSTGRES_UP.value(int(overview.postgres is not None))
        yield queues.SNAPSHOT_AGE.value(max(0.0, (timezone.now() - overview.at).total_seconds()))
        if overview.redis is not None:
            names = stage_names(overview.redis)
            yield from _of_queues(overview.redis, reading, names)
            yield from _of_workers(overview.redis)
            if reading.postgres is not None:
                yield _ages(reading.postgres, names)
        if overview.postgres is not None:
            yield from _of_duties(overview.postgres, overview.at)
        if reading.postgres is not None:
            yield from _of_postgres(reading.postgres)


def stage_names(redis: InRedis) -> Mapping[str, str]:
    """The value of the label `stage` by queue. Queues with engines come first, then those with tasks."""
    served = {queue for node in redis.nodes for engine in node.engines for queue in engine.queues}
    order = sorted(
        redis.snapshot.queues,
        key=lambda stats: (stats.queue not in served, not (stats.waiting or stats.running), stats.queue),
    )
    return {stats.queue: stats.queue if index < MAX_STAGES else OTHER for index, stats in enumerate(order)}


def _of_queues(redis: InRedis, reading: Reading, names: Mapping[str, str]) -> Iterator[Metric]:
    depth, ready, lag = (Values(float) for _ in range(3))
    by_stage = {
        family: Values(float)
        for family in (queues.PAUSED, queues.PENDING, queues.STALE, queues.RECOVERED, queues.REFUSED, queues.BACKLOG)
    }
    ended = Values(float)
    for stats in redis.snapshot.queues:
        stage = names[stats.queue]
        for family, number in _numbers(stats, reading.stale).items():
            by_stage[family][stage,] += number
        for outcome in RUNS:
            ended[stage, outcome] += stats.counters.get(outcome, 0)
        for lane in stats.lanes:
            ready[stage, lane.tier] += lane.ready
            depth[stage, lane.tier] += lane.waiting
            if lane.consistent:
                lag[stage, lane.tier] += lane.lag
    if reading.overview.postgres is not None:  # what waits in Postgres is part of it
        yield queues.DEPTH.of(depth)
        yield queues.READY.of(ready)
    yield queues.LAG.of(lag)
    yield queues.ENDED.of(ended)
    for family, values in by_stage.items():
        yield family.of(values)


def _numbers(stats: QueueStats, stale: Mapping[str, int]) -> dict[Family, float]:
    return {
        queues.PAUSED: stats.paused,
        queues.PENDING: stats.running,
        queues.STALE: stale.get(stats.queue, 0),
        queues.RECOVERED: stats.counters.get("recovered", 0),
        queues.REFUSED: stats.counters.get("refused", 0),
        queues.BACKLOG: stats.events_backlog,
    }


def _ages(postgres: FromPostgres, names: Mapping[str, str]) -> Metric:
    """Of queues that share the label `other` the greatest."""
    ages = Values(float)
    for (queue, tier, percentile), age in postgres.ages.items():
        key = (names.get(queue, OTHER), tier, percentile)
        ages[key] = max(ages[key], age)
    return queues.AGE.of(ages)


def _of_workers(redis: InRedis) -> Iterator[Metric]:
    engines = [engine for node in redis.nodes for engine in node.engines]
    states = Counter(engine.state for engine in engines)
    nodes = Counter(node.state for node in redis.nodes)
    capacity, used = capacity_of(redis)
    led: dict[tuple[str, ...], float] = {(Role.ORCHESTRATOR,): int(redis.is_led)}
    yield queues.WORKERS.of({(state,): states[state] for state in EngineState})
    yield queues.NODES_BY_STATE.of({(state,): nodes[state] for state in NodeState})
    yield queues.CAPACITY.value(capacity)
    yield queues.USED.value(used)
    breakers = Counter(engine.breaker for engine in breakers_open(redis))
    yield queues.BREAKERS.of({(state,): breakers[state] for state in (BreakerState.OPEN, BreakerState.HALF_OPEN)})
    yield queues.PROBES.value(sum(engine.probe_failing for engine in engines))
    yield _disks(redis)
    yield queues.LEADER.of(led)


def _disks(redis: InRedis) -> Metric:
    used: dict[tuple[str, ...], float] = {}
    for subject, share in disks_used(redis).items():
        used[subject,] = share
    return queues.DISK.of(used)


def disks_used(redis: InRedis) -> dict[str, float]:
    """By node; `artifacts` is the folder of the artifact store, if it is one."""
    used = {node.id: node.disk_used for node in redis.nodes if node.disk_used is not None}
    if settings.DALSTON_ARTIFACTS_URL.startswith("file:///"):
        with suppress(OSError):
            usage = shutil.disk_usage(settings.DALSTON_ARTIFACTS_URL.removeprefix("file://"))
            used["artifacts"] = usage.used / max(usage.used + usage.free, 1)
    return used


def capacity_of(redis: InRedis) -> tuple[int, float]:
    """The slots of ready engines, and the share of them that runs a task."""
    ready = [engine for node in redis.nodes for engine in node.engines if engine.state == EngineState.READY]
    slots = sum(engine.capacity for engine in ready)
    return slots, min(1.0, sum(engine.running for engine in ready) / slots) if slots else 0.0


def breakers_open(redis: InRedis) -> list[EngineLine]:
    """Live engines and workers over HTTP whose circuit breaker is open, or half-open."""
    engines = [engine for node in redis.nodes for engine in node.engines if engine.state != EngineState.DEAD]
    return [each for each in engines if each.breaker in {BreakerState.OPEN, BreakerState.HALF_OPEN}]


def _of_duties(postgres: InPostgres, now: datetime) -> Iterator[Metric]:
    age, overdue, failures = Values(float), Values(float), Values(float)
    for duty in postgres.duties:
        age[duty.name,] = max(0.0, (now - duty.last_run_at).total_seconds())
        overdue[duty.name,] = overdue_s(duty, now)
        failures[duty.name,] = duty.failures
    yield queues.DUTY_AGE.of(age)
    yield queues.DUTY_OVERDUE.of(overdue)
    yield queues.DUTY_FAILURES.of(failures)


def _of_postgres(postgres: FromPostgres) -> Iterator[Metric]:
    yield queues.STATES.of({(state,): number for state, number in postgres.states.items()})
    yield queues.WEBHOOK_BACKLOG.value(postgres.webhooks)
    yield queues.OPEN_DEAD_LETTERS.of({(cause,): postgres.dead_letters.get(cause, 0) for cause in Cause})
    yield queues.RETRIABLE.value(postgres.retriable)


@cache  # a process that also loads the URLs, for its checks, has them once
def register() -> None:
    """Add the queue's gauges to what this process serves."""
    REGISTRY.register(QueueCollector())
