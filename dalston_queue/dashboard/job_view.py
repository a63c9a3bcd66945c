"""What a job's page shows, as plain values: the job, its tasks and their history, three queries and a look at Redis."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dalston_queue.dashboard.progress import progress_of
from dalston_queue.jobs.states import JOB_OVER, TASK_OVER, TaskStatus
from dalston_queue.jobs.why import explain, facts_about
from dalston_queue.models import Job, Task, TaskEvent
from dalston_queue.redis import get_broker

SHOWN_EVENTS = 100
SHOWN_CHARACTERS = 4_000
EXPLAINED = 5
"""For so many of its unfinished tasks the page says why they do not run: each costs a look at Redis."""
FOLLOWED = 20
"""For so many of its running tasks the page says how far they are."""


@dataclass(frozen=True, slots=True)
class TaskLine:
    id: str
    stage: str
    queue: str
    after: str
    status: str
    attempt: int
    engine: str
    error: str
    why: str
    progress: str
    parameters: str
    result: str
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventLine:
    id: int
    stage: str
    at: datetime
    from_status: str
    to_status: str
    attempt: int
    engine: str
    message: str


@dataclass(frozen=True, slots=True)
class JobView:
    at: datetime
    id: str
    name: str
    project: str
    status: str
    priority: str
    percent: int
    error: str
    trace_id: str
    created_at: datetime
    finished_at: datetime | None
    tasks: tuple[TaskLine, ...]
    events: tuple[EventLine, ...]

    @property
    def is_over(self) -> bool:
        return self.status in JOB_OVER


def read_job(job_id: UUID) -> JobView | None:
    now = timezone.now()
    job = Job.objects.select_related("project").filter(pk=job_id).first()
    if job is None:
        return None
    tasks = list(Task.objects.filter(job_id=job_id).order_by("id"))
    return JobView(
        at=now,
        id=str(job.id),
        name=job.name,
        project=job.project.name,
        status=job.status,
        priority=job.priority,
        percent=round(100 * job.progress),
        error=job.error,
        trace_id=job.trace_id,
        created_at=job.created_at,
        finished_at=job.finished_at,
        tasks=tuple(_lines(tasks, now)),
        events=events_of(TaskEvent.objects.filter(task__job_id=job_id)),
    )


def _lines(tasks: list[Task], now: datetime) -> list[TaskLine]:
    explained = [task.id for task in tasks if task.status not in TASK_OVER][:EXPLAINED]
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    progress = progress_of(running[:FOLLOWED], get_broker())
    return [
        _line(task, _why(task, now) if task.id in explained else "", progress.get(str(task.id), "")) for task in tasks
    ]


def _why(task: Task, now: datetime) -> str:
    return explain(task, facts_about(task, get_broker()), now).sentence


def _line(task: Task, why: str, progress: str) -> TaskLine:
    return TaskLine(
        id=str(task.id),
        stage=task.stage,
        queue=task.queue,
        after=", ".join(task.after),
        status=task.status,
        attempt=task.attempt,
        engine=task.assigned_worker_id,
        error=task.error,
        why=why,
        progress=progress,
        parameters=_shown(task.parameters),
        result=_shown(task.result),
        started_at=task.started_at,
        finished_at=task.finished_at,
    )


def events_of(rows: QuerySet[TaskEvent]) -> tuple[EventLine, ...]:
    """The newest of these, newest first."""
    wanted = rows.select_related("task").order_by("-id")
    wanted = wanted.only("task__stage", "at", "from_status", "to_status", "attempt", "engine_id", "message")
    return tuple(
        EventLine(
            row.pk, row.task.stage, row.at, row.from_status, row.to_status, row.attempt, row.engine_id, row.message
        )
        for row in wanted[:SHOWN_EVENTS]
    )


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return ""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}\n… {len(text)} characters in all"
