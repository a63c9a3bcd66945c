"""Decisions about the node: its cordon when every engine crash-loops, and how far a drain is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dalston_queue.broker.nodes.reports import DrainReport, RunningTask
from dalston_queue.broker.protocol.types import EngineState

from .lifecycle import Life

STEADY_S = 60.0


def cordon_reason(lives: Collection[Life]) -> str:
    """Why the node has to be cordoned; empty if it has not."""
    wanted = [life for life in lives if life.wanted]
    if not wanted or not all(life.history.looping for life in wanted):
        return ""
    failures = sum(len(life.history.failures) for life in wanted)
    engines = "1 engine" if len(wanted) == 1 else f"{len(wanted)} engines"
    return f"every engine crash-loops: {failures} failures of {engines}; the last: {wanted[-1].why}"


def recovered(lives: Collection[Life], now: float) -> bool:
    """True if an engine has been ready for a minute: it ends the cordon."""
    return any(
        life.state is EngineState.READY and life.ready_at is not None and now - life.ready_at >= STEADY_S
        for life in lives
    )


@dataclass(frozen=True, slots=True)
class Leaving:
    """An engine that is draining and still runs."""

    life: Life
    tasks: tuple[RunningTask, ...]
    running: int


def drain_report(left: Iterable[Leaving], now: float, now_ms: int) -> DrainReport:
    """How many engines and tasks are left, and when the drain ends at the latest: by grace and deadlines."""
    engines = list(left)
    ends = [_ends_in(engine, now, now_ms) for engine in engines]
    return DrainReport(
        engines_left=len(engines),
        in_flight=sum(engine.running for engine in engines),
        ends_in_s=round(max(0.0, *ends), 1) if ends else 0.0,
    )


def _ends_in(engine: Leaving, now: float, now_ms: int) -> float:
    if engine.life.climb is None or not engine.running:
        return 0.0
    grace = engine.life.climb.grace_ends_at() - now
    known = len(engine.tasks) == engine.running and all(task.deadline_ms for task in engine.tasks)
    return min(grace, max(task.deadline_ms - now_ms for task in engine.tasks) / 1000) if known else grace
