"""The health line: is it healthy, and what is wrong, in words. Pure: an overview in, sentences out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dalston_queue.broker.snapshot import QueueStats
from dalston_queue.broker.types import EngineState, NodeState
from dalston_queue.dashboard.from_postgres import COUNTED
from dalston_queue.dashboard.overview import InPostgres, InRedis, Overview, Pace


class Tone(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Health:
    tone: Tone
    headline: str
    findings: tuple[Finding, ...]


_SICK = {EngineState.CRASHLOOP, EngineState.FATAL, EngineState.UNKILLABLE, EngineState.UNHEALTHY, EngineState.DEAD}


SLACK_S = 60
"""Huey looks once a minute."""


def judge(overview: Overview) -> Health:
    findings = tuple(_findings(overview))
    worst = max((finding.tone for finding in findings), key=list(Tone).index, default=Tone.OK)
    return Health(worst, _headline(overview, worst), findings)


def _headline(overview: Overview, worst: Tone) -> str:
    if overview.redis is None:
        return "Redis does not answer: what is waiting and running is not known."
    if overview.postgres is None:
        return "Postgres does not answer: nothing can be submitted or recorded."
    waiting = sum(queue.waiting for queue in overview.redis.snapshot.queues)
    running = sum(queue.running for queue in overview.redis.snapshot.queues)
    engines = _ready_engines(overview.redis)
    now = f"{waiting or 'nothing'} waiting, {running or 'nothing'} running, {_count(engines, 'engine')} ready"
    start = {Tone.OK: "All is well", Tone.WARN: "Running, with something to look at", Tone.BAD: "Something is wrong"}
    return f"{start[worst]}: {now}."


def _findings(overview: Overview) -> Iterator[Finding]:
    if overview.redis is None:
        yield Finding(Tone.BAD, "Submissions are still accepted and stored; they flow again when Redis is back.")
    else:
        yield from _of_redis(overview.redis)
    if overview.postgres is None:
        yield Finding(Tone.BAD, "Engines finish what they hold; their results wait in Redis until Postgres is back.")
    else:
        yield from _of_postgres(overview.postgres, overview.at)


def _of_redis(redis: InRedis) -> Iterator[Finding]:
    if not redis.is_led:
        yield Finding(Tone.BAD, "No orchestrator leads: nothing is dispatched. Start manage.py runorchestrator.")
    for queue in redis.snapshot.queues:
        yield from _of_queue(queue, _engines_of(redis, queue.queue), redis.paces.get(queue.queue))
    yield from _of_lanes(redis)
    for node in redis.nodes:
        if node.state == NodeState.DEAD:
            yield Finding(Tone.BAD, f"Node {node.id} is dead: its tasks went back in line.")
        for engine in node.engines:
            if engine.state in _SICK and node.state != NodeState.DEAD:
                why = f": {engine.note}" if engine.note else ""
                yield Finding(Tone.WARN, f"Engine {engine.id} is {engine.state}{why}.")
    if not _ready_engines(redis):
        yield Finding(Tone.BAD, "No engine is ready: nothing can run. Start manage.py runsupervisor on a node.")


def of_stream(overview: Overview, queue: str) -> Finding:
    """One stream in words, for its own page."""
    if overview.redis is None:
        return Finding(Tone.BAD, "Redis does not answer: what is waiting and running is not known.")
    stats = next((stats for stats in overview.redis.snapshot.queues if stats.queue == queue), None)
    if stats is None:
        return Finding(Tone.WARN, "No such stream: nothing was ever sent to it, and no engine serves it.")
    engines = _engines_of(overview.redis, queue)
    worst = max(_of_queue(stats, engines, overview.redis.paces.get(queue)), key=_badness, default=None)
    if worst is not None:
        return worst
    running = f"{stats.running or 'nothing'} running"
    return Finding(Tone.OK, f"Nothing waits, {running}, {_count(engines, 'engine')} ready.")


def _badness(finding: Finding) -> int:
    return list(Tone).index(finding.tone)


def _of_queue(queue: QueueStats, engines: int, pace: Pace | None) -> Iterator[Finding]:
    if any(not lane.consistent for lane in queue.lanes):
        yield Finding(Tone.WARN, f"{queue.queue}: the counts are inconsistent; the reconciler will mend them.")
    if queue.paused:
        yield Finding(Tone.WARN, f"{queue.queue} is paused with {queue.waiting or 'nothing'} waiting.")
    elif queue.waiting > 0 and engines == 0:
        yield Finding(Tone.BAD, f"{queue.queue}: {queue.waiting} waiting, and no ready engine serves it.")
    elif queue.waiting > 0 and queue.running == 0 and pace is not None and pace.goes == 0:
        yield Finding(
            Tone.BAD, f"{queue.queue}: {queue.waiting} waiting, {_count(engines, 'engine')}, and nothing moves."
        )
    elif queue.waiting > 0:
        yield Finding(
            Tone.OK, f"{queue.queue}: {queue.waiting} waiting, {_count(engines, 'engine')}, {_clear(queue, pace)}."
        )


def _of_lanes(redis: InRedis) -> Iterator[Finding]:
    """Of a queue that has engines, what none of them can run: no finding of the queue tells of it."""
    stuck: Counter[tuple[str, str]] = Counter()
    for lane in redis.lanes:
        if lane.waiting and not lane.engines and not lane.paused and _engines_of(redis, lane.queue):
            stuck[lane.queue, lane.capabilities] += lane.waiting
    for (queue, needed), waiting in stuck.items():
        text = f"{queue}: {waiting} waiting for {needed.replace('+', ' and ')}, and no ready engine has that."
        yield Finding(Tone.BAD, text)


def _clear(queue: QueueStats, pace: Pace | None) -> str:
    """When the line will be empty, if it goes on like this."""
    if pace is None:
        return "pace not known yet"
    shrinks = pace.goes - pace.comes
    if shrinks <= 0:
        return "and the line grows" if pace.comes > pace.goes else "and the line does not shrink"
    seconds = queue.waiting / shrinks
    if seconds < 90:
        return f"clear in about {max(1, round(seconds))} s"
    return (
        f"clear in about {round(seconds / 60)} min" if seconds < 5400 else f"clear in about {round(seconds / 3600)} h"
    )


def _of_postgres(postgres: InPostgres, now: datetime) -> Iterator[Finding]:
    if not postgres.duties:
        yield Finding(Tone.WARN, "No housekeeping has run yet: manage.py run_huey does it once a minute.")
    for duty in postgres.duties:
        late = (now - duty.last_run_at).total_seconds()
        if late > 2 * duty.every_s + SLACK_S:
            text = f"The {duty.name} has not run for {round(late / 60)} min: check manage.py run_huey."
            yield Finding(Tone.BAD, text)
        elif duty.error:
            yield Finding(Tone.WARN, f"The {duty.name} failed: {duty.error[:200]}")
    count = postgres.dead_letters
    if count:
        number = f"More than {COUNTED} dead letters wait" if count > COUNTED else f"{_count(count, 'dead letter')} wait"
        yield Finding(Tone.WARN, f"{number + ('s' if count == 1 else '')} for a decision.")


def _engines_of(redis: InRedis, queue: str) -> int:
    return sum(
        queue in engine.queues and engine.state == EngineState.READY for node in redis.nodes for engine in node.engines
    )


def _ready_engines(redis: InRedis) -> int:
    return sum(engine.state == EngineState.READY for node in redis.nodes for engine in node.engines)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
