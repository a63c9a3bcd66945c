"""Overview -> named pieces of HTML. The page and the socket render the same partials, so they cannot differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.template.loader import render_to_string

from dalston_queue.broker.types import EngineState, NodeState, Role
from dalston_queue.dashboard.board import Fragment, Row
from dalston_queue.dashboard.charts import sparkline
from dalston_queue.dashboard.from_postgres import COUNTED
from dalston_queue.dashboard.health_line import age, is_late, judge
from dalston_queue.dashboard.history import series
from dalston_queue.dashboard.latest import latest
from dalston_queue.dashboard.overview import DutyLine, Lane, NodeLine, Overview, RecentTask
from dalston_queue.jobs.states import TaskStatus

TASK_TONES: dict[str, str] = {
    TaskStatus.COMPLETED: "ok",
    TaskStatus.RUNNING: "busy",
    TaskStatus.QUEUED: "wait",
    TaskStatus.READY: "wait",
    TaskStatus.SCHEDULED: "wait",
    TaskStatus.FAILED: "bad",
    TaskStatus.DEAD_LETTER: "bad",
}
MACHINE_TONES: dict[str, str] = {
    NodeState.ACTIVE: "ok",
    EngineState.READY: "ok",
    EngineState.STARTING: "busy",
    EngineState.LOADING: "busy",
    EngineState.DRAINING: "wait",
    NodeState.CORDONED: "wait",
    EngineState.BACKOFF: "bad",
    EngineState.CRASHLOOP: "bad",
    EngineState.FATAL: "bad",
    EngineState.UNHEALTHY: "bad",
    EngineState.UNKILLABLE: "bad",
    EngineState.DEAD: "bad",
}


def current_fragments() -> list[Fragment]:
    return fragments(latest.get())


def fragments(overview: Overview) -> list[Fragment]:
    redis, postgres = overview.redis, overview.postgres
    return [
        pulse(overview.at),
        Fragment("health", render("health", health=judge(overview))),
        table("lanes", None if redis is None else [_lane(lane, _waited(overview, lane)) for lane in redis.lanes]),
        table("tasks", None if postgres is None else [_task(task) for task in postgres.tasks]),
        Fragment("nodes", render("nodes", nodes=None if redis is None else [_node(node) for node in redis.nodes])),
        Fragment("letters", _letters(overview)),
        Fragment("leaders", render("leaders", leaders=_leaders(overview))),
        table("duties", None if postgres is None else [_duty(duty, overview.at) for duty in postgres.duties]),
    ]


def pulse(at: datetime) -> Fragment:
    """Says how fresh the page is. It differs in every tick, so it also tells the page that the connection lives."""
    return Fragment("pulse", render("pulse", at=at, now_ms=int(at.timestamp() * 1000)))


def table(name: str, rows: list[Row] | None) -> Fragment:
    body = "".join(row.html for row in rows) if rows else render(f"{name}_empty", known=rows is not None)
    return Fragment(name, f'<tbody id="{name}">{body}</tbody>', tuple(rows or ()))


@lru_cache(maxsize=512)
def _task(task: RecentTask) -> Row:
    row_id = f"task-{task.id}"
    status, tone = task.status.replace("_", " "), TASK_TONES.get(task.status, "")
    return Row(
        row_id,
        render(
            "task",
            row_id=row_id,
            task=task,
            status=status,
            tone=tone,
            spent=words_for(task.started_at, task.finished_at),
        ),
    )


def words_for(started_at: datetime | None, finished_at: datetime | None) -> str | None:
    """How long it ran, in words, once it is over; while it runs, the page counts."""
    if started_at is None or finished_at is None:
        return None
    return duration((finished_at - started_at).total_seconds())


@lru_cache(maxsize=512)
def _lane(lane: Lane, waited: tuple[float | None, ...]) -> Row:
    row_id = f"lane-{lane.queue}-{lane.capabilities.replace('+', '-')}-{lane.tier}"
    return Row(
        row_id,
        render(
            "lane",
            row_id=row_id,
            lane=lane,
            clear=_clear(lane),
            spark=sparkline(waited, f"waiting in {lane.queue} {lane.capabilities} {lane.tier}, the last hour"),
        ),
    )


def _waited(overview: Overview, lane: Lane) -> tuple[float | None, ...]:
    return tuple(series(overview.past.lanes.get(lane.sample), "waiting"))


def _clear(lane: Lane) -> str:
    """When the lane is empty, in a word; an ellipsis while its pace is not known."""
    if not lane.waiting:
        return "–"
    if lane.pace is None:
        return "…"
    shrinks = lane.pace.goes - lane.pace.comes
    if shrinks > 0:
        return age(max(1, lane.waiting / shrinks))
    return "grows" if lane.pace.comes > lane.pace.goes else "stands"


@dataclass(frozen=True, slots=True)
class NodeChip:
    """One node in the strip: as long as nothing happens to it, it stays as it is."""

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


def _letters(overview: Overview) -> str:
    return render(
        "letters_growth",
        open=None if overview.postgres is None else overview.postgres.dead_letters,
        counted=COUNTED,
        made=None if overview.postgres is None else overview.postgres.letters_made,
        spark=sparkline(series(overview.past.letters, "made"), "dead letters a minute, the last hour"),
    )


def _leaders(overview: Overview) -> list[dict[str, Any]] | None:
    """Each role; whether an orchestrator leads is known by its lease, not by who took it last."""
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
    words = {"every": age(duty.every_s), "took": duration(duty.took_ms / 1000)}
    return Row(row_id, render("duty", row_id=row_id, duty=duty, state=state, tone=tone, **words))


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{max(seconds, 0):.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def render(partial: str, **context: Any) -> str:
    return render_to_string(f"dashboard/_{partial}.html", context).strip()
