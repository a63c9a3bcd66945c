"""What happened to jobs since somebody looked last: two statements and a look at Redis, for all who follow any job.

A place in a job's history is the id of its last TaskEvent. Ids of one job grow in the order of their commits, because
every move is made with the job's row locked until then: nothing older can appear behind a place. Across jobs that is
not so, and therefore each follower has a place of its own.
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
from dalston_queue.jobs.queries.progress import NOTHING, reported_by
from dalston_queue.redis import get_broker

AT_ONCE = 500
"""Moves of one job that are read together; the next look brings the rest."""
RUNNING_SHOWN = 50
"""For so many running tasks of a job its followers hear how far they are."""


@dataclass(frozen=True, slots=True)
class Place:
    job_id: UUID
    seen: int
    """The id of the last move that was seen; 0: none."""


@dataclass(frozen=True, slots=True)
class Move:
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
class News:
    """A job as of now, and its moves since the place."""

    status: JobStatus
    progress: float
    error: str
    completed_at: datetime | None
    moves: tuple[Move, ...]
    running: tuple[RunningTask, ...]

    @property
    def is_over(self) -> bool:
        """Nothing follows: it has ended, and these are its last moves. One statement read both, so they agree."""
        return self.status in JOB_OVER and len(self.moves) < AT_ONCE


# Of each job: its tasks by (job, stage), of each task its moves past the place by (task, id).
NEWS = f"""
    SELECT w.place, j.status, j.progress, j.error, j.finished_at,
           e.id, e.task_id, e.stage, e.queue, e.transition, e.from_status, e.to_status,
           e.attempt, e.deliveries, e.engine_id, e.cause, e.message, e.at
    FROM unnest(%(jobs)s::uuid[], %(seen)s::bigint[]) WITH ORDINALITY AS w (job_id, seen, place)
    JOIN dalston_job j ON j.id = w.job_id
    LEFT JOIN LATERAL (
        SELECT e.*, t.stage, t.queue
        FROM dalston_task t JOIN dalston_task_event e ON e.task_id = t.id AND e.id > w.seen
        WHERE t.job_id = w.job_id ORDER BY e.id LIMIT {AT_ONCE}
    ) e ON true
    ORDER BY w.place, e.id"""  # noqa: S608 - a number of ours

RUNNING = f"""
    SELECT t.id, t.job_id, t.stage, t.queue, t.attempt
    FROM unnest(%s::uuid[]) AS w (job_id)
    JOIN LATERAL (
        SELECT * FROM dalston_task t WHERE t.job_id = w.job_id AND t.status = 'running'
        ORDER BY t.id LIMIT {RUNNING_SHOWN}
    ) t ON true"""  # noqa: S608 - a number of ours


def read_news(places: Collection[Place]) -> dict[Place, News]:
    """By place; a job that does not exist (any more) is not in the answer."""
    wanted = list(dict.fromkeys(places))
    if not wanted:
        return {}
    rows = _rows(NEWS, {"jobs": id_array(place.job_id for place in wanted), "seen": [place.seen for place in wanted]})
    by_place: defaultdict[Place, list[Any]] = defaultdict(list)
    for number, *row in rows:
        by_place[wanted[number - 1]].append(row)
    live = {place.job_id for place, found in by_place.items() if found[0][0] not in JOB_OVER}
    running = _running(live)
    return {place: _news(found, running.get(place.job_id, ())) for place, found in by_place.items()}


def _news(rows: list[Any], running: Iterable[RunningTask]) -> News:
    status, progress, error, finished_at = rows[0][:4]
    moves = tuple(Move(*row[4:]) for row in rows if row[4] is not None)
    return News(JobStatus(status), progress, error, finished_at, moves, tuple(running))


def _running(jobs: Collection[UUID]) -> dict[UUID, list[RunningTask]]:
    if not jobs:
        return {}
    tasks = [RunningTask(*row) for row in _rows(RUNNING, [id_array(jobs)])]
    said = reported_by(tasks, get_broker())
    found: defaultdict[UUID, list[RunningTask]] = defaultdict(list)
    for task in tasks:
        report = (said or {}).get(task.id, NOTHING)
        known = said is not None
        found[task.job_id].append(replace(task, progress=report.fraction, message=report.message, known=known))
    return found


def _rows(statement: str, arguments: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return list(cursor.fetchall())
