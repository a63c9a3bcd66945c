"""Health: findings about an overview, in sentences, the worst first. Pure: an overview in, sentences out.

Each finding links to the page where an operator can do something about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dalston_queue.broker.protocol.types import EngineState, NodeState, Tier
from dalston_queue.broker.views.snapshot import LaneStats, QueueStats, Rates
from dalston_queue.dashboard.overview.from_postgres import COUNT_LIMIT
from dalston_queue.dashboard.overview.from_redis import can_take
from dalston_queue.dashboard.overview.values import (
    DutyLine,
    EngineLine,
    InPostgres,
    InRedis,
    NodeLine,
    Overview,
    Past,
)
from dalston_queue.dashboard.parts.charts import Numbers, series
from dalston_queue.dashboard.parts.request import page_url
from dalston_queue.dashboard.parts.words import UNHEALTHY_TONES, count
from dalston_queue.jobs.queries.pace import in_words, seconds_for


class Tone(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    tone: Tone
    text: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    tone: Tone
    headline: str
    findings: tuple[Finding, ...]


SLACK_S = 60
"""Huey checks once a minute."""
STALLED_MIN = 15
"""A queue in which no task ended for so many minutes needs attention, however busy its engines seem. If all its engines
are full, their tasks may be long: each task has its deadline, so that is only a warning."""
GROWTH_MIN = 10


def duties_url() -> str:
    return f"{page_url('overview')}#duties-title"


def judge(overview: Overview) -> Health:
    findings = tuple(sorted(_findings(overview), key=badness, reverse=True))
    worst = findings[0].tone if findings else Tone.OK
    return Health(worst, _headline(overview, worst), findings)


def badness(finding: Finding) -> int:
    return list(Tone).index(finding.tone)


def _headline(overview: Overview, worst: Tone) -> str:
    if overview.redis is None:
        return "Redis does not answer: what is waiting and running is not known."
    if overview.postgres is None:
        return "Postgres does not answer: nothing can be submitted or recorded."
    shown = overview.redis.shown
    waiting = shown.waiting + sum(queue.waiting for queue in overview.redis.snapshot.queues)
    running = shown.running + sum(queue.running for queue in overview.redis.snapshot.queues)
    engines = count(len(_ready(overview.redis)), "engine")
    full = ", all busy" if _is_all_busy(overview.redis) else ""
    now = f"{waiting or 'nothing'} waiting, {running or 'nothing'} running, {engines} ready{full}"
    start = {Tone.OK: "Healthy", Tone.WARN: "Needs attention", Tone.BAD: "Unhealthy"}
    return f"{start[worst]}: {now}."


def _findings(overview: Overview) -> Iterator[Finding]:
    if overview.redis is None:
        text = "Submissions are still accepted and stored; they are dispatched when Redis is back."
        yield Finding(Tone.BAD, f"{_in_postgres(overview.postgres)}{text}")
    else:
        yield from _of_redis(overview.redis, overview.past)
    if overview.postgres is None:
        text = "Engines finish their tasks; the results wait in Redis until Postgres is back."
        if overview.redis is not None:
            text += " What waits in Postgres is not known: waiting is what is in Redis."
        yield Finding(Tone.BAD, text)
    else:
        yield from _of_postgres(overview.postgres, overview.past, overview.at)


def _in_postgres(postgres: InPostgres | None) -> str:
    """What waits in Postgres, as a sentence; empty if nothing does, or if it is not known."""
    ready = sum(lane.tasks for lanes in postgres.ready.values() for lane in lanes.values()) if postgres else 0
    return f"{count(ready, 'task')} ready in Postgres. " if ready else ""


def _of_redis(redis: InRedis, past: Past) -> Iterator[Finding]:
    if not redis.is_led:
        text = "No orchestrator is the leader: nothing is dispatched. Start manage.py runorchestrator."
        yield Finding(Tone.BAD, text, duties_url())
    of_queues = [each for queue in redis.snapshot.queues for each in _of_queue(redis, past, queue)]
    yield from _first([*of_queues, *_of_lanes(redis)], "about queues", page_url("queues"))
    yield from _first([each for node in redis.nodes for each in _of_node(node)], "about nodes", page_url("nodes"))
    if not _ready(redis):
        text = "No engine is ready: nothing can run. Start manage.py runsupervisor on a node."
        yield Finding(Tone.BAD, text, page_url("nodes"))


MAX_ALIKE = 10
"""Findings about queues, or about nodes. Clients make queues, and what else is wrong must stay in sight."""


def _first(findings: Sequence[Finding], about: str, there: str) -> Iterator[Finding]:
    """The worst of these, and how many more there are."""
    worst = sorted(findings, key=badness, reverse=True)
    yield from worst[:MAX_ALIKE]
    if hidden := worst[MAX_ALIKE:]:
        yield Finding(hidden[0].tone, f"{len(hidden)} more findings {about}.", there)


def queue_finding(overview: Overview, queue: str) -> Finding:
    """The worst finding of one queue, for its own page."""
    if overview.redis is None:
        return Finding(Tone.BAD, "Redis does not answer: what is waiting and running is not known.")
    stats = next((stats for stats in overview.redis.snapshot.queues if stats.queue == queue), None)
    if stats is None:
        return Finding(Tone.WARN, "No such queue: no task was ever sent to it, and no engine serves it.")
    worst = max(_of_queue(overview.redis, overview.past, stats), key=badness, default=None)
    if worst is not None:
        return worst
    engines = _engines_of(overview.redis, queue)
    nothing = "Nothing waits" if overview.postgres else "Nothing waits in Redis"
    return Finding(Tone.OK, f"{nothing}, {stats.running or 'nothing'} running, {count(engines, 'engine')} ready.")


def _of_queue(redis: InRedis, past: Past, queue: QueueStats) -> Iterator[Finding]:
    name, waiting, there = queue.queue, queue.waiting, page_url("queue", queue.queue)
    engines, rates, full = _engines_of(redis, name), redis.rates.get(name), _are_full(redis, queue)
    idle = queue.running == 0 and rates is not None and rates.out_per_s == 0
    if any(not lane.consistent for lane in queue.lanes):
        yield Finding(Tone.WARN, f"{name}: the counts are inconsistent; the reconciler will repair them.", there)
    if queue.paused:
        yield Finding(Tone.WARN, f"{name} is paused with {waiting or 'nothing'} waiting.", there)
    elif waiting > 0 and engines == 0:
        yield Finding(Tone.BAD, f"{name}: {waiting} waiting, and no ready engine serves it.", there)
    elif waiting > 0 and idle and not full:
        yield Finding(Tone.BAD, f"{name}: {waiting} waiting, {count(engines, 'engine')}, and nothing moves.", there)
    elif waiting > 0 and _is_stalled(queue, past):
        busy = f"{count(engines, 'engine')}, all busy" if full else ""
        stalled = f"and nothing has ended for {STALLED_MIN} min. See what its engines run"
        yield Finding(Tone.WARN if full else Tone.BAD, _sentence(queue, f"{waiting} waiting", busy, stalled), there)
    elif waiting > 0 and queue.running == 0 and full:
        busy = f"{count(engines, 'engine')}, all busy with other queues"
        yield Finding(Tone.WARN, _sentence(queue, f"{waiting} waiting", _oldest(queue), busy), there)
    elif waiting > 0:
        busy = f"{count(engines, 'engine')}{', all busy' if full else ''}"
        clear = clear_in(waiting, rates)
        yield Finding(Tone.OK, _sentence(queue, f"{waiting} waiting", _oldest(queue), busy, clear), there)


def _sentence(queue: QueueStats, *words: str) -> str:
    return f"{queue.queue}: {', '.join(word for word in words if word)}."


def _is_stalled(queue: QueueStats, past: Past) -> bool:
    """Tasks waited in each of the last minutes, and none left the queue. False without enough samples."""
    lanes = [(lane, past.lanes.get(lane.name)) for lane in queue.lanes if lane.added or lane.ready]
    if not lanes or any(samples is None for _, samples in lanes):
        return False
    waited = [series(samples, "waiting")[-STALLED_MIN:] for _, samples in lanes]
    removed = [series(samples, "removed")[-STALLED_MIN:] for _, samples in lanes]
    if any(None in numbers or len(numbers) < STALLED_MIN for numbers in removed + waited):
        return False
    unchanged = all(set(numbers) == {lane.removed} for (lane, _), numbers in zip(lanes, removed, strict=True))
    return unchanged and all(sum(minute) > 0 for minute in zip(*waited, strict=True))


def _oldest(queue: QueueStats) -> str:
    if queue.oldest_age_ms is None:
        return ""
    return f"oldest {in_words(queue.oldest_age_ms / 1000)}"


def _of_lanes(redis: InRedis) -> Iterator[Finding]:
    """Lanes that none of their queue's engines can run: the findings of the queue do not show it."""
    stuck: Counter[tuple[str, str]] = Counter()
    for lane in redis.lanes:
        if lane.waiting and not lane.engines and not lane.paused and _engines_of(redis, lane.queue):
            stuck[lane.queue, lane.capabilities] += lane.waiting
    for (queue, needed), waiting in stuck.items():
        text = f"{queue}: {waiting} waiting for {needed.replace('+', ' and ')}, and no ready engine has that."
        yield Finding(Tone.BAD, text, page_url("queue", queue))


def _of_node(node: NodeLine) -> Iterator[Finding]:
    there = page_url("node", node.id)
    if node.state == NodeState.DEAD:
        yield Finding(Tone.BAD, f"Node {node.id} is dead: its tasks were reclaimed.", there)
        return
    for engine in node.engines:
        if engine.state in UNHEALTHY_TONES:
            why = f": {engine.note}" if engine.note else ""
            yield Finding(Tone(UNHEALTHY_TONES[engine.state]), f"Engine {engine.id} is {engine.state}{why}.", there)


def clear_in(waiting: int, rates: Rates | None) -> str:
    """When the queue will be empty at this rate."""
    if rates is None:
        return "rate not known yet"
    seconds = seconds_for(waiting, rates.out_per_s - rates.in_per_s)
    if seconds is None:
        return "and the queue grows" if rates.in_per_s > rates.out_per_s else "and the queue does not shrink"
    return f"clear in about {in_words(max(1, seconds))}"


def _of_postgres(postgres: InPostgres, past: Past, now: datetime) -> Iterator[Finding]:
    if not postgres.duties:
        text = "No housekeeping has run yet: manage.py run_huey does it once a minute."
        yield Finding(Tone.WARN, text, duties_url())
    for duty in postgres.duties:
        if is_late(duty, now):
            minutes = round((now - duty.last_run_at).total_seconds() / 60)
            text = f"The {duty.name} has not run for {minutes} min: check manage.py run_huey."
            yield Finding(Tone.BAD, text, duties_url())
        elif duty.error:
            yield Finding(Tone.WARN, f"The {duty.name} failed: {duty.error[:200]}", duties_url())
    if postgres.dead_letters:
        text = f"{_dead_letters(postgres.dead_letters)}{_growth(past.dead_letters)}."
        yield Finding(Tone.WARN, text, page_url("dead-letters"))


def is_late(duty: DutyLine, now: datetime) -> bool:
    return overdue_s(duty, now) > 0


def overdue_s(duty: DutyLine, now: datetime) -> float:
    """How long ago the duty should have run; 0 if it is not late."""
    return max(0.0, (now - duty.last_run_at).total_seconds() - 2 * duty.every_s - SLACK_S)


def _dead_letters(dead_letters: int) -> str:
    if dead_letters > COUNT_LIMIT:
        return f"More than {COUNT_LIMIT} open dead letters"
    return f"{count(dead_letters, 'open dead letter')}"


def _growth(samples: Sequence[Numbers | None]) -> str:
    """New dead letters of the last minutes; empty if that is not known."""
    made = [number for number in series(samples[-GROWTH_MIN:], "made") if number is not None]
    return f", {sum(made):.0f} new in the last {GROWTH_MIN} min" if any(made) else ""


def _engines_of(redis: InRedis, queue: str) -> int:
    return sum(queue in engine.queues for engine in _ready(redis))


def _is_all_busy(redis: InRedis) -> bool:
    """Do tasks wait while every ready engine is full?"""
    waits = any(queue.waiting > 0 and not queue.paused for queue in redis.snapshot.queues)
    ready = _ready(redis)
    return waits and bool(ready) and all(engine.is_full for engine in ready)


def _are_full(redis: InRedis, queue: QueueStats) -> bool:
    """Are all engines that can run the waiting tasks full? Then the tasks wait for capacity, and nothing is stuck."""
    ready, lanes = _ready(redis), [lane for lane in queue.lanes if lane.waiting > 0]
    able = [(lane, engine) for lane in lanes for engine in ready if can_take(engine, lane)]
    return bool(able) and not any(_has_room(engine, lane) for lane, engine in able)


def _has_room(engine: EngineLine, lane: LaneStats) -> bool:
    return engine.is_empty if lane.tier is Tier.SUSPECT else not engine.is_full


def _ready(redis: InRedis) -> list[EngineLine]:
    return [engine for node in redis.nodes for engine in node.engines if engine.state == EngineState.READY]
