"""How far the running ones of the recent tasks are: only Redis knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from dalston_queue.broker.broker import Broker
from dalston_queue.dashboard.overview.read import RecentTask
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.progress import NOTHING, Reported, reported_by


@dataclass(frozen=True, slots=True)
class _Running:
    id: UUID
    queue: str


def with_progress(tasks: Sequence[RecentTask], broker: Broker) -> tuple[RecentTask, ...]:
    """The same tasks; a look at Redis per queue that has one of them running."""
    running = [_Running(UUID(task.id), task.queue) for task in tasks if task.status == TaskStatus.RUNNING]
    if not running:
        return tuple(tasks)
    told = reported_by(running, broker) or {}
    return tuple(
        _with(task, told.get(UUID(task.id), NOTHING)) if task.status == TaskStatus.RUNNING else task for task in tasks
    )


def _with(task: RecentTask, told: Reported) -> RecentTask:
    percent = None if told.fraction is None else round(100 * told.fraction)
    return replace(task, percent=percent, message=told.message)
