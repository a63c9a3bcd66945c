"""How far a drain is, and when it ends at the latest: by the engines' grace and their tasks' deadlines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dalston_queue.broker.nodes.reports import DrainReport, RunningTask

from .lifecycle import Life


@dataclass(frozen=True, slots=True)
class Leaving:
    """An engine that is to go, and still runs."""

    life: Life
    tasks: tuple[RunningTask, ...]
    running: int


def drain_report(left: Iterable[Leaving], now: float, now_ms: int) -> DrainReport:
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
