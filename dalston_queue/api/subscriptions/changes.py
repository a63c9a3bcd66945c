"""Changes of jobs since a cursor: two statements and one read of Redis, for all subscriptions together.

A cursor is the id of the last TaskEvent that a subscriber has. Ids of one job grow in the order of their commits,
because each transition is made with the job's row locked until the commit: no older id can appear behind a cursor.
Across jobs that does not hold, so each subscription has a cursor of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.lifecycle.states import JOB_OVER, JobStatus
from dalston_queue.jobs.lifecycle.status import id_array
from dalston_queue.jobs.queries.progress import NO_PROGRESS, read_progress
from dalston_queue.redis import get_broker

CHANGES_LIMIT = 500
"""Task changes of one job in one read; the next tick reads the rest."""
RUNNING_LIMIT = 50
"""Running tasks of one job whose progress is sent."""


@dataclass(frozen=True, slots=True)
class Cursor:
    job_id: UUID
    event_id: int
    """Of the last TaskEvent that was sent; 0: none."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A TaskEvent with the stage and the queue of its task."""

    event_id: int
    task_id: UUID
    stage: str
    queue: str
    transition: str
    from_status: str
    to_status: str
    attempt: int
    deliveries: int
    engine_id: str
    cause: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunningTask:
    id: UUID
    job_id: UUID
    stage: str
    queue: str
    attempt: int
    progress: float | None = None
    message: str = ""
    known: bool = True
    """False: Redis does not answer."""


@dataclass(frozen=True, slots=True)
class JobChanges:
    """A job as of now, and the changes of its tasks since a cursor. One statement reads both, so they agree."""

    status: JobStatus
    progress: float
    error: str
    completed_at: datetime | None
    tasks: tuple[TaskChange, ...]
    running: tuple[RunningTask, ...]

    @property
    def is_last(self) -> bool:
        return self.status in JOB_OVER and len(self.tasks) < CHANGES_LIMIT


# Of each job: its tasks by (job, stage), of each task its events past the cursor by (task, id).
CHANGES = f"""
    SELECT c.number, j.status, j.progress, j.error, j.finished_at,
           e.id, e.task_id, e.stage, e.queue, e.transition, e.from_status, e.to_status,
           e.attempt, e.deliveries, e.engine_id, e.cause, e.message, e.at
    FROM unnest(%(jobs)s::uuid[], %(event_ids)s::bigint[]) WITH ORDINALITY AS c (job_id, event_id, number)
    JOIN dalston_job j ON j.id = c.job_id
    LEFT JOIN LATERAL (
        SELECT e.*, t.stage, t.queue
        FROM dalston_task t JOIN dalston_task_event e ON e.task_id = t.id AND e.id > c.event_id
        WHERE t.job_id = c.job_id ORDER BY e.id LIMIT {CHANGES_LIMIT}
    ) e ON true
    ORDER BY c.number, e.id"""  # noqa: S608 - a number of ours

RUNNING = f"""
    SELECT t.id, t.job_id, t.stage, t.queue, t.attempt
    FROM unnest(%s::uuid[]) AS w (job_id)
    JOIN LATERAL (
        SELECT * FROM dalston_task t WHERE t.job_id = w.job_id AND t.status = 'running'
        ORDER BY t.id LIMIT {RUNNING_LIMIT}
    ) t ON true"""  # noqa: S608 - a number of ours


def read_changes(cursors: Collection[Cursor]) -> dict[Cursor, JobChanges]:
    """By cursor; without those whose job does not exist (any more)."""
    wanted = list(dict.fromkeys(cursors))
    if not wanted:
        return {}
    jobs, event_ids = id_array(cursor.job_id for cursor in wanted), [cursor.event_id for cursor in wanted]
    by_cursor: defaultdict[Cursor, list[Any]] = defaultdict(list)
    for number, *row in _rows(CHANGES, {"jobs": jobs, "event_ids": event_ids}):
        by_cursor[wanted[number - 1]].append(row)
    running = _running({cursor.job_id for cursor, rows in by_cursor.items() if rows[0][0] not in JOB_OVER})
    return {cursor: _changes(rows, running.get(cursor.job_id, ())) for cursor, rows in by_cursor.items()}


def _changes(rows: list[Any], running: Iterable[RunningTask]) -> JobChanges:
    status, progress, error, finished_at = rows[0][:4]
    tasks = tuple(TaskChange(*row[4:]) for row in rows if row[4] is not None)
    return JobChanges(JobStatus(status), progress, error, finished_at, tasks, tuple(running))


def _running(jobs: Collection[UUID]) -> dict[UUID, list[RunningTask]]:
    if not jobs:
        return {}
    tasks = [RunningTask(*row) for row in _rows(RUNNING, [id_array(jobs)])]
    reports = read_progress(tasks, get_broker())
    found: defaultdict[UUID, list[RunningTask]] = defaultdict(list)
    for task in tasks:
        report = (reports or {}).get(task.id, NO_PROGRESS)
        known = reports is not None
        found[task.job_id].append(replace(task, progress=report.fraction, message=report.message, known=known))
    return found


def _rows(statement: str, arguments: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return list(cursor.fetchall())
