"""The overview's part from Postgres: four queries, each along an index, whatever the tables hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import connection

from dalston_queue.broker.broker import Broker
from dalston_queue.dashboard.alerts.read import standing
from dalston_queue.dashboard.overview.values import DutyLine, InPostgres, LeaderLine, RecentTask
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.lanes import read_ready
from dalston_queue.jobs.queries.progress import NO_PROGRESS, Progress, read_progress
from dalston_queue.models import Leadership, Task

SHOWN = 20
COUNT_LIMIT = 1_000
"""Dead letters are counted to here; past it the page says "more than"."""

_FIELDS = (
    "id",
    "job_id",
    "task_type",
    "queue",
    "status",
    "priority",
    "attempt",
    "assigned_worker_id",
    "error",
    "created_at",
    "started_at",
    "finished_at",
)


# One round trip for both. A count without a limit would read every open dead letter.
_DEAD_LETTERS_AND_DUTIES = """
    SELECT open.count, made.count,
        duty.name, duty.every_s, duty.last_run_at, duty.last_error, duty.duration_ms, duty.repaired,
        duty.failures
    FROM (
        SELECT count(*) FROM (
            SELECT 1 FROM dalston_dead_letter WHERE replayed_at IS NULL AND discarded_at IS NULL LIMIT %s
        ) AS counted
    ) AS open CROSS JOIN (
        SELECT count(*) FROM (
            SELECT 1 FROM dalston_dead_letter WHERE created_at > now() - interval '1 hour' LIMIT %s
        ) AS counted
    ) AS made LEFT JOIN dalston_duty AS duty ON true
    ORDER BY duty.name"""


def read(queues: Sequence[str] | None = None) -> InPostgres:
    """`queues`: those that are shown; None: all."""
    with connection.cursor() as cursor:
        cursor.execute(_DEAD_LETTERS_AND_DUTIES, [COUNT_LIMIT + 1, COUNT_LIMIT + 1])
        rows = cursor.fetchall()
    duties = tuple(DutyLine(*duty) for _, _, *duty in rows if duty[0] is not None)
    leaders = Leadership.objects.order_by("role").values_list("role", "holder", "term", "since")
    return InPostgres(
        tasks=_recent(),
        dead_letters=rows[0][0],
        dead_letters_made=rows[0][1],
        duties=duties,
        leaders=tuple(LeaderLine(*leader) for leader in leaders),
        alerts=standing(),
        ready=read_ready(queues),
    )


def _recent() -> tuple[RecentTask, ...]:
    """The newest, and those that ended last: under load a task ends long after the newest twenty were submitted."""
    rows = Task.objects.values_list(*_FIELDS)
    newest = rows.order_by("-id")[:SHOWN]
    ended = rows.filter(finished_at__isnull=False).order_by("-finished_at")[:SHOWN]
    tasks = [_task(*row) for row in newest.union(ended)]
    return tuple(sorted(tasks, key=lambda task: (task.touched_at, task.id), reverse=True)[:SHOWN])


def _task(task_id: Any, job_id: Any, *rest: Any) -> RecentTask:
    return RecentTask(str(task_id), str(job_id), *rest)


@dataclass(frozen=True, slots=True)
class _Running:
    id: UUID
    queue: str


def with_progress(tasks: Sequence[RecentTask], broker: Broker) -> tuple[RecentTask, ...]:
    """The same tasks; one read of Redis per queue that has one of them running."""
    running = [_Running(UUID(task.id), task.queue) for task in tasks if task.status == TaskStatus.RUNNING]
    if not running:
        return tuple(tasks)
    reported = read_progress(running, broker) or {}
    return tuple(
        _with(task, reported.get(UUID(task.id), NO_PROGRESS)) if task.status == TaskStatus.RUNNING else task
        for task in tasks
    )


def _with(task: RecentTask, reported: Progress) -> RecentTask:
    percent = None if reported.fraction is None else round(100 * reported.fraction)
    return replace(task, percent=percent, message=reported.message)
