"""Fragments of the overview, the same for the page and its WebSocket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from dalston_queue.broker.protocol.types import EngineState, Role
from dalston_queue.dashboard.alerts.render import panel
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.overview.figures import figure_fragments
from dalston_queue.dashboard.overview.from_postgres import COUNT_LIMIT
from dalston_queue.dashboard.overview.health import is_late, judge
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.values import (
    DutyLine,
    Hour,
    InPostgres,
    Lane,
    NodeLine,
    Overview,
    QueueLine,
    RecentTask,
)
from dalston_queue.dashboard.parts.charts import Numbers, series, sparkline
from dalston_queue.dashboard.parts.words import MACHINE_TONES, TASK_TONES, duration, time_spent, waiting_parts
from dalston_queue.jobs.queries.pace import in_words, seconds_for


def overview_fragments() -> list[Fragment]:
    return fragments(latest.get())


def fragments(overview: Overview) -> list[Fragment]:
    redis, postgres = overview.redis, overview.postgres
    return [
        as_of(overview.at),
        Fragment("health", render("_health", id="health", health=judge(overview))),
        panel(None if postgres is None else postgres.alerts),
        _lanes(overview),
        Fragment("more-queues", render("overview/_more_queues", shown=redis and redis.shown)),
        *figure_fragments(None if postgres is None else overview.past),
        _tasks(postgres),
        Fragment("nodes", render("overview/_nodes", nodes=redis and [_node(node) for node in redis.nodes])),
        Fragment("dead-letters", _dead_letters(overview)),
        Fragment("leaders", render("overview/_leaders", leaders=_leaders(overview))),
        _duties(overview),
    ]


def _lanes(overview: Overview) -> Fragment:
    redis = overview.redis
    rows = None if redis is None else [row for queue in redis.queues for row in _rows_of(overview, queue)]
    empty = "No queue yet. A queue is created by the first task that is sent to it, or the first engine that serves it."
    return table("lanes", rows, columns=12, empty=empty)


def _rows_of(overview: Overview, queue: QueueLine) -> Iterator[Row]:
    """A queue, and below it its lanes if it has more than one."""
    samples = overview.past.queues.get(queue.queue)
    yield queue_row(queue, hour_of(samples), tuple(series(samples, "waiting")))
    for lane in queue.lanes:
        yield lane_row(lane, tuple(series(overview.past.lanes.get(lane.sample), "waiting")))


def _tasks(postgres: InPostgres | None) -> Fragment:
    rows = None if postgres is None else [_task(task) for task in postgres.tasks]
    empty = "No task yet. The command above submits the first one."
    return table("tasks", rows, columns=6, empty=empty, source="Postgres")


def _duties(overview: Overview) -> Fragment:
    postgres, empty = overview.postgres, "No duty has run yet. `manage.py run_huey` runs them."
    rows = None if postgres is None else [_duty(duty, overview.at) for duty in postgres.duties]
    return table("duties", rows, columns=6, empty=empty, source="Postgres")


@lru_cache(maxsize=512)
def _task(task: RecentTask) -> Row:
    row_id = f"task-{task.id}"
    status, tone = task.status.replace("_", " "), TASK_TONES.get(task.status, "")
    return Row(
        row_id,
        render(
            "overview/_task",
            row_id=row_id,
            task=task,
            status=status,
            tone=tone,
            spent=time_spent(task.started_at, task.finished_at),
        ),
    )


@lru_cache(maxsize=256)
def queue_row(line: QueueLine, hour: Hour | None, waited: tuple[float | None, ...]) -> Row:
    row_id = f"queue-{line.queue}"
    words = {
        "clear": _clear(line),
        "parts": waiting_parts(line.waiting, line.ready),
        "wait": "–" if hour is None or hour.median_wait_s is None else duration(hour.median_wait_s),
        "longest": "" if hour is None or hour.p95_wait_s is None else duration(hour.p95_wait_s),
        "spark": sparkline(waited, f"waiting in {line.queue}, the last hour"),
    }
    return Row(row_id, render("overview/_queue", row_id=row_id, line=line, hour=hour, **words))


@lru_cache(maxsize=512)
def lane_row(lane: Lane, waited: tuple[float | None, ...]) -> Row:
    row_id = f"lane-{lane.sample.replace(' ', '-')}"  # two shards may have the same lane
    return Row(
        row_id,
        render(
            "overview/_lane",
            row_id=row_id,
            lane=lane,
            clear=_clear(lane),
            parts=waiting_parts(lane.waiting, lane.ready),
            spark=sparkline(waited, f"waiting in {lane.queue} {lane.capabilities} {lane.tier}, the last hour"),
        ),
    )


def hour_of(samples: Sequence[Numbers | None] | None) -> Hour | None:
    """None without a sample that counts what ended: the duty has not run yet."""
    known = [each for each in samples or () if each is not None and "completed" in each]
    if not known:
        return None
    waits = sorted(
        (each["median_wait_s"], each["completed"] + each["failed"]) for each in known if "median_wait_s" in each
    )
    return Hour(
        completed=round(sum(each["completed"] for each in known)),
        failed=round(sum(each["failed"] for each in known)),
        median_wait_s=_weighted_median(waits),
        p95_wait_s=max((each["p95_wait_s"] for each in known if "p95_wait_s" in each), default=None),
    )


def _weighted_median(values: Sequence[tuple[float, float]]) -> float | None:
    """Of values with their weights, in order. The median of the minutes' medians: near that of all tasks."""
    left = sum(weight for _, weight in values) / 2
    for value, weight in values:
        left -= weight
        if left <= 0:
            return value
    return None


def _clear(lane: Lane | QueueLine) -> str:
    """When the lane or queue will be empty; an ellipsis while its rates are not known."""
    if not lane.waiting:
        return "–"
    if lane.rates is None:
        return "…"
    seconds = seconds_for(lane.waiting, lane.rates.out_per_s - lane.rates.in_per_s)
    if seconds is not None:
        return in_words(max(1, seconds))
    return "growing" if lane.rates.in_per_s > lane.rates.out_per_s else "stalled"


@dataclass(frozen=True, slots=True)
class NodeChip:
    """One node in the strip. It has no times, so it changes only with the node's state."""

    id: str
    state: str
    tone: str
    ready: int
    engines: int
    trouble: str
    note: str
    labels: tuple[str, ...]


def _node(node: NodeLine) -> NodeChip:
    states = Counter(engine.state for engine in node.engines if engine.state != EngineState.READY)
    return NodeChip(
        id=node.id,
        state=node.state,
        tone=MACHINE_TONES.get(node.state, ""),
        ready=sum(engine.state == EngineState.READY for engine in node.engines),
        engines=len(node.engines),
        trouble=", ".join(f"{number} {state}" for state, number in sorted(states.items())),
        note=node.note,
        labels=node.labels,
    )


def _dead_letters(overview: Overview) -> str:
    return render(
        "overview/_dead_letters",
        open=None if overview.postgres is None else overview.postgres.dead_letters,
        counted=COUNT_LIMIT,
        made=None if overview.postgres is None else overview.postgres.dead_letters_made,
        spark=sparkline(series(overview.past.dead_letters, "made"), "dead letters a minute, the last hour"),
    )


def _leaders(overview: Overview) -> list[dict[str, Any]] | None:
    """Each role. Whether an orchestrator leads now, its lease in Redis says, not the row of the last leader."""
    if overview.postgres is None:
        return None
    led = overview.redis.is_led if overview.redis else None
    return [
        {"line": line, "led": led if line.role == Role.ORCHESTRATOR else True} for line in overview.postgres.leaders
    ]


def _duty(duty: DutyLine, now: datetime) -> Row:
    state = "late" if is_late(duty, now) else "failed" if duty.error else "ok"
    return _duty_row(duty, state)


@lru_cache(maxsize=64)
def _duty_row(duty: DutyLine, state: str) -> Row:
    row_id = f"duty-{duty.name.replace(' ', '-')}"
    tone = "ok" if state == "ok" else "bad"
    words = {"every": in_words(duty.every_s), "took": duration(duty.took_ms / 1000)}
    return Row(row_id, render("overview/_duty", row_id=row_id, duty=duty, state=state, tone=tone, **words))
