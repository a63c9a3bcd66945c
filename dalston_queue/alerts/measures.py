"""What each alert measures: subjects and their values, from the facts. Pure. None: a server does not answer, or there
are no samples yet, so nothing is known, and what fires goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from dalston_queue.alerts.facts import MIN_ATTEMPTS, Facts
from dalston_queue.broker.protocol.types import EngineState, Tier
from dalston_queue.dashboard.overview.health import overdue_s
from dalston_queue.dashboard.overview.values import EngineLine, InRedis
from dalston_queue.metrics.collector import breakers_open, capacity_of, disks_used

Values = Mapping[str, float]


def _redis(facts: Facts) -> InRedis | None:
    return facts.reading.overview.redis


def _engines(redis: InRedis) -> list[EngineLine]:
    return [engine for node in redis.nodes for engine in node.engines]


def _count(facts: Facts, state: EngineState) -> Values | None:
    redis = _redis(facts)
    return None if redis is None else {"": sum(engine.state == state for engine in _engines(redis))}


def ready_workers(facts: Facts) -> Values | None:
    return _count(facts, EngineState.READY)


def crash_loops(facts: Facts) -> Values | None:
    return _count(facts, EngineState.CRASHLOOP)


def depths(facts: Facts) -> Values | None:
    redis = _redis(facts)
    if redis is None or facts.reading.overview.postgres is None:
        return None
    found: defaultdict[str, float] = defaultdict(float)
    for queue in redis.snapshot.queues:
        for lane in queue.lanes:
            found[f"{queue.queue} {lane.tier}"] += lane.waiting
    return found


def high_depth(facts: Facts) -> Values | None:
    all_depths = depths(facts)
    if all_depths is None:
        return None
    return {"": sum(number for subject, number in all_depths.items() if subject.endswith(f" {Tier.HIGH}"))}


def failure_rate(facts: Facts) -> Values | None:
    """The attempts that engines ended, from Redis."""
    failed = [facts.total(name) for name in ("failed", "expired", "exhausted")]
    completed = facts.total("completed")
    if completed is None or None in failed:
        return None
    count = sum(number for number in failed if number is not None)
    return {"": count / (count + completed)} if count + completed >= MIN_ATTEMPTS else {}


def retry_rate(facts: Facts) -> Values | None:
    completed = facts.total("completed")
    if completed is None or facts.retries is None:
        return None
    return {"": facts.retries / completed} if completed >= MIN_ATTEMPTS else {}


def dead_letters_per_minute(facts: Facts) -> Values | None:
    return None if facts.dead_letters is None else {"": facts.dead_letters / 5}


def leader(facts: Facts) -> Values | None:
    redis = _redis(facts)
    return None if redis is None else {"": int(redis.is_led)}


def redis_up(facts: Facts) -> Values | None:
    return {"": int(_redis(facts) is not None)}


def postgres_up(facts: Facts) -> Values | None:
    """While Postgres is away nothing is stored, and we notify of nothing: Prometheus does."""
    return {"": int(facts.reading.overview.postgres is not None)}


def stalled(facts: Facts) -> Values | None:
    redis = _redis(facts)
    if redis is None or facts.reading.overview.postgres is None:
        return None
    return {
        stats.queue: stats.waiting
        for stats in redis.snapshot.queues
        if not stats.paused and (grown := facts.queues.get(stats.queue)) and not grown.numbers.get("ran")
    }


def utilisation(facts: Facts) -> Values | None:
    redis = _redis(facts)
    return None if redis is None else {"": capacity_of(redis)[1]}


def _ages(facts: Facts, percentile: str, tier: str | None = None) -> Values | None:
    if facts.reading.postgres is None:
        return None
    ages = facts.reading.postgres.ages
    return {
        queue if tier else f"{queue} {its_tier}": age
        for (queue, its_tier, its_percentile), age in ages.items()
        if its_percentile == percentile and tier in (None, its_tier)
    }


def oldest_low(facts: Facts) -> Values | None:
    return _ages(facts, "oldest", Tier.LOW)


def oldest_high(facts: Facts) -> Values | None:
    return _ages(facts, "oldest", Tier.HIGH)


def ages_p95(facts: Facts) -> Values | None:
    return _ages(facts, "p95")


def breakers(facts: Facts) -> Values | None:
    redis = _redis(facts)
    return None if redis is None else {"": len(breakers_open(redis))}


def unhealthy(facts: Facts) -> Values | None:
    redis = _redis(facts)
    if redis is None:
        return None
    engines = _engines(redis)
    sick = sum(engine.state == EngineState.UNHEALTHY for engine in engines)
    return {"": sick / len(engines)} if engines else {}


def probe_failures_per_minute(facts: Facts) -> Values | None:
    grown = facts.probe_failures
    return None if grown is None else {"": grown.per_minute("probe_failures")}


def _per_minute(facts: Facts, name: str) -> Values | None:
    number = facts.per_minute(name)
    return None if number is None else {"": number}


def recoveries_per_minute(facts: Facts) -> Values | None:
    return _per_minute(facts, "recovered")


def refused_per_minute(facts: Facts) -> Values | None:
    return _per_minute(facts, "refused")


def overdue_duties(facts: Facts) -> Values | None:
    postgres = facts.reading.overview.postgres
    return None if postgres is None else {duty.name: overdue_s(duty, facts.at) for duty in postgres.duties}


def disks(facts: Facts) -> Values | None:
    redis = _redis(facts)
    return None if redis is None else disks_used(redis)


def dead_letters_by_cause(facts: Facts) -> Values | None:
    postgres = facts.reading.postgres
    return None if postgres is None else {cause: float(count) for cause, count in postgres.dead_letters.items()}


def retriable(facts: Facts) -> Values | None:
    postgres = facts.reading.postgres
    return None if postgres is None else {"": postgres.retriable}
