"""What a job's page reads, as plain values: the job, its tasks with their deliveries and history, operator actions.

A fixed number of queries and reads of Redis. Large parameters and results are read by the task's own page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField, QuerySet
from django.utils import timezone

from dalston_queue.audit.trail import actions_on
from dalston_queue.dashboard.audit.read import ActionLine, line_of
from dalston_queue.dashboard.dead_letters.read import batches_of
from dalston_queue.dashboard.job.webhooks import webhooks_of
from dalston_queue.dashboard.job.why import why_each
from dalston_queue.dashboard.parts.black_box import pretty
from dalston_queue.dashboard.parts.words import progress_of
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER, TaskStatus
from dalston_queue.jobs.queries.timeline import Delivery, timeline_of
from dalston_queue.models import DeadLetter, Job, Task, TaskEvent, WebhookDelivery
from dalston_queue.redis import get_broker

SHOWN_EVENTS = 100
READ_EVENTS = 5_000
"""For the timeline: 200 stages with two dozen moves each. The oldest of more are left out."""
SHOWN_DELIVERIES = 5
SHOWN_ACTIONS = 50
SHOWN_CHARACTERS = 4_000
INLINE_BYTES = 8_000
INLINE_TASKS = 40
"""Larger contents, and those of more tasks, are on the task's own page: this one is read every second."""
MAX_PROGRESS = 50
"""Running tasks whose progress is read."""


@dataclass(frozen=True, slots=True)
class TaskLine:
    id: str
    stage: str
    queue: str
    after: tuple[str, ...]
    required: bool
    status: str
    attempt: int
    key: str  # its concurrency key
    engine: str
    error: str
    why: str
    progress: str
    parameters: str
    result: str
    is_large: bool  # its result is not on this page
    first_enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    deliveries: tuple[Delivery, ...]


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
class Stops:
    """What a cancel would end now."""

    running: int
    queued: int
    waiting: int
    over: int
    engines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobView:
    at: datetime
    job: Job
    tasks: tuple[TaskLine, ...]
    events: tuple[EventLine, ...]
    actions: tuple[ActionLine, ...]
    webhooks: tuple[WebhookDelivery, ...] | None  # None: the job has no callback URL

    @property
    def is_over(self) -> bool:
        return self.job.status in JOB_OVER

    @property
    def stops(self) -> Stops:
        running = [task for task in self.tasks if task.status == TaskStatus.RUNNING]
        over = sum(task.status in TASK_OVER for task in self.tasks)
        queued = sum(task.status == TaskStatus.QUEUED for task in self.tasks)
        waiting = len(self.tasks) - over - queued - len(running)
        return Stops(len(running), queued, waiting, over, tuple(sorted({task.engine for task in running})))


def read_job(job_id: UUID) -> JobView | None:
    now = timezone.now()
    job = Job.objects.select_related("project").filter(pk=job_id).first()
    if job is None:
        return None
    tasks = list(_without_content().filter(job_id=job_id).order_by("id"))
    moves = list(TaskEvent.objects.filter(task__job_id=job_id).order_by("-id")[:READ_EVENTS])
    stages = {task.id: task.stage for task in tasks}
    webhooks = webhooks_of(job_id) if job.callback_url else None
    return JobView(
        at=now,
        job=job,
        tasks=tuple(_lines(tasks, moves, now)),
        events=tuple(_event(move, stages.get(move.task_id, "")) for move in moves[:SHOWN_EVENTS]),
        actions=_actions(job_id, [*(task.id for task in tasks), *(webhook.pk for webhook in webhooks or ())]),
        webhooks=webhooks,
    )


def events_of(rows: QuerySet[TaskEvent]) -> tuple[EventLine, ...]:
    """The newest of these, newest first."""
    return tuple(_event(row, row.task.stage) for row in rows.select_related("task").order_by("-id")[:SHOWN_EVENTS])


def _event(row: TaskEvent, stage: str) -> EventLine:
    return EventLine(row.pk, stage, row.at, row.from_status, row.to_status, row.attempt, row.engine_id, row.message)


def _without_content() -> QuerySet[Task]:
    """With the stored sizes of parameters and result instead: Postgres knows them without reading either."""

    def size(field: str) -> Func:
        return Func(F(field), function="pg_column_size", output_field=IntegerField())

    rows = Task.objects.defer("parameters", "result")
    return rows.annotate(parameters_bytes=size("parameters"), result_bytes=size("result"))


def _lines(tasks: list[Task], moves: list[TaskEvent], now: datetime) -> list[TaskLine]:
    broker = get_broker()
    why = why_each(tasks, broker, now)
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    progress = progress_of(running[:MAX_PROGRESS], broker)
    by_task: defaultdict[UUID, list[TaskEvent]] = defaultdict(list)
    for move in reversed(moves):
        by_task[move.task_id].append(move)
    content = _content(tasks)
    return [
        _line(
            task,
            why.get(task.id, ""),
            progress.get(str(task.id), ""),
            content.get(task.id, (None, None)),
            tuple(timeline_of(by_task[task.id])),
        )
        for task in tasks
    ]


def _content(tasks: list[Task]) -> dict[UUID, tuple[Any, Any]]:
    """Parameters and results that are small enough to be on this page."""
    if len(tasks) > INLINE_TASKS:
        return {}
    small = [task.id for task in tasks if _bytes(task, "parameters") <= INLINE_BYTES]
    parameters = dict(Task.objects.filter(id__in=small).values_list("id", "parameters"))
    small = [task.id for task in tasks if 0 < _bytes(task, "result") <= INLINE_BYTES]
    results = dict(Task.objects.filter(id__in=small).values_list("id", "result"))
    return {task.id: (parameters.get(task.id), results.get(task.id)) for task in tasks}


def _bytes(task: Task, field: str) -> int:
    return getattr(task, f"{field}_bytes") or 0


def _line(task: Task, why: str, progress: str, content: tuple[Any, Any], deliveries: tuple[Delivery, ...]) -> TaskLine:
    parameters, result = content
    return TaskLine(
        id=str(task.id),
        stage=task.stage,
        queue=task.queue,
        after=tuple(task.after),
        required=task.required,
        status=task.status,
        attempt=task.attempt,
        key=task.concurrency_key,
        engine=task.assigned_worker_id,
        error=task.error,
        why=why,
        progress=progress,
        parameters=_shown(parameters),
        result=_shown(result),
        is_large=_bytes(task, "result") > 0 and result is None,
        first_enqueued_at=task.first_enqueued_at,
        started_at=task.started_at,
        finished_at=task.finished_at,
        deliveries=deliveries,
    )


def _actions(job_id: UUID, parts: Iterable[object]) -> tuple[ActionLine, ...]:
    """What was done to the job, to its tasks and webhooks, and to its dead letters, alone or by a replay batch."""
    dead_letters = list(DeadLetter.objects.filter(task__job_id=job_id).values_list("id", flat=True))
    targets = [str(job_id), *(str(part) for part in parts), *(str(dead_letter) for dead_letter in dead_letters)]
    targets += batches_of(dead_letters)
    return tuple(line_of(row) for row in actions_on(targets)[:SHOWN_ACTIONS])


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return ""
    text = pretty(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}\n… {len(text)} characters in all"
