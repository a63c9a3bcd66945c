"""Overview -> named pieces of HTML. The page and the socket render the same partials, so they cannot differ."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from django.template.loader import render_to_string

from dalston_queue.broker.types import EngineState, NodeState
from dalston_queue.dashboard.board import Fragment, Row
from dalston_queue.dashboard.health_line import judge
from dalston_queue.dashboard.latest import latest
from dalston_queue.dashboard.overview import EngineLine, Lane, NodeLine, Overview, RecentTask
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
        table("lanes", None if redis is None else [_lane(lane) for lane in redis.lanes]),
        table("tasks", None if postgres is None else [_task(task) for task in postgres.tasks]),
        table("nodes", None if redis is None else [row for node in redis.nodes for row in _node_rows(node)]),
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
def _lane(lane: Lane) -> Row:
    row_id = f"lane-{lane.queue}-{lane.capabilities.replace('+', '-')}-{lane.tier}"
    return Row(row_id, render("lane", row_id=row_id, lane=lane))


def _node_rows(node: NodeLine) -> list[Row]:
    return [_node(node), *(_engine(engine) for engine in node.engines)]


@lru_cache(maxsize=256)
def _node(node: NodeLine) -> Row:
    row_id = f"node-{node.id or 'none'}"
    return Row(row_id, render("node", row_id=row_id, node=node, tone=MACHINE_TONES.get(node.state, "")))


@lru_cache(maxsize=1024)
def _engine(engine: EngineLine) -> Row:
    row_id = f"engine-{engine.id}"
    name, tone = engine.id.removeprefix(f"{engine.node_id}."), MACHINE_TONES.get(engine.state, "")
    return Row(row_id, render("engine", row_id=row_id, engine=engine, name=name, tone=tone))


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
