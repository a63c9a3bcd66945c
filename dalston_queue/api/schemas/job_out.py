"""A job as the API shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Func, IntegerField, TextField
from django.db.models.functions import Cast
from pydantic import BaseModel, Field

from dalston_queue.api.errors.problems import Code
from dalston_queue.api.schemas.task_out import TaskOut, task_out
from dalston_queue.api.schemas.webhook_out import WebhookOut, deliveries_of
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.lifecycle.states import TASK_OVER, JobStatus, TaskStatus
from dalston_queue.jobs.queries.progress import NOTHING, Reported, reported_by
from dalston_queue.jobs.queries.timeline import RunOutcome, runs_of
from dalston_queue.models import Job, Task, TaskEvent
from dalston_queue.redis import get_broker

MOVES_READ = 5_000
"""For the timeline: 200 stages with two dozen moves each. The oldest of more are left out."""
RESULTS_BYTES = 1024 * 1024
"""Of all results together. 200 tasks may have 256 KiB each, and this answer is made for whoever looks at the job."""


class RunOut(BaseModel):
    """One delivery of a task to an engine."""

    attempt: int
    engine_id: str
    started_at: datetime | None = Field(description="Null if it was over before its start was recorded.")
    finished_at: datetime | None
    outcome: RunOutcome | None = Field(description="Null while it runs.")
    cause: str
    message: str


class JobTaskOut(TaskOut):
    """A task with what only its job shows: its place in the DAG and its part of the timeline."""

    after: list[str] = Field(description="Stages that must be over first.")
    required: bool
    weight: float = Field(description="Its share of the job's progress.")
    progress: float | None = Field(description="From 0 to 1; null while it runs and its engine says nothing.")
    progress_message: str
    progress_known: bool = Field(
        description="False: it runs, and Redis, which alone knows how far it is, does not answer."
    )
    runs: list[RunOut] = Field(
        description="Every delivery to an engine, oldest first. From the newest 5 000 moves of the job's tasks."
    )
    result_left_out: bool = Field(
        description="It has a result, which is not here: results of 1 MiB are, the first stages' first. Read the task."
    )


class JobOut(BaseModel):
    job_id: UUID
    name: str
    project: str
    status: JobStatus
    priority: Priority
    parameters: dict[str, Any]
    progress: float = Field(description="From 0 to 1, by the weights of the stages that are over.")
    error: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None = Field(description="When it was over, well or not.")
    trace_id: str
    callback_url: str | None
    webhooks: list[WebhookOut] | None = Field(
        None, description="Only when one job is read: the deliveries to its callback URL, newest first."
    )
    tasks: list[JobTaskOut] | None = Field(None, description="Only when one job is read, in the order of its stages.")


class BatchItem(BaseModel):
    """One job of a batch: accepted, found again under its key, or refused."""

    job_id: UUID | None = None
    task_ids: list[UUID] = Field(default_factory=list)
    created: bool = False
    code: Code | None = None
    detail: str | None = None


class BatchOut(BaseModel):
    accepted: int
    refused: int
    items: list[BatchItem] = Field(description="In the order of the request.")


def job_with_tasks(job: Job) -> JobOut:
    """The job with its timeline: three statements, and one look at Redis for each queue in which something runs."""
    size = Func(Cast("result", TextField()), function="octet_length", output_field=IntegerField())
    tasks = list(job.tasks.defer("result").annotate(result_bytes=size).order_by("id"))
    left_out = _read_results(tasks)
    moves: defaultdict[UUID, list[TaskEvent]] = defaultdict(list)
    for move in reversed(TaskEvent.objects.filter(task__job_id=job.id).order_by("-id")[:MOVES_READ]):
        moves[move.task_id].append(move)
    reported = reported_by([task for task in tasks if task.status == TaskStatus.RUNNING], get_broker())
    shown = [_task(job, task, moves[task.id], reported, left_out=task.id in left_out) for task in tasks]
    return job_out(job, shown, deliveries_of(job) if job.callback_url else [])


def job_out(job: Job, tasks: list[JobTaskOut] | None = None, webhooks: list[WebhookOut] | None = None) -> JobOut:
    return JobOut(
        job_id=job.id,
        name=job.name,
        project=job.project.name,
        status=JobStatus(job.status),
        priority=Priority(job.priority),
        parameters=job.parameters,
        progress=job.progress,
        error=job.error or None,
        created_at=job.created_at,
        started_at=job.started_at,
        completed_at=job.finished_at,
        trace_id=job.trace_id,
        callback_url=job.callback_url or None,
        webhooks=webhooks,
        tasks=tasks,
    )


def _read_results(tasks: Sequence[Task]) -> set[UUID]:
    """Give the tasks their results, as many as there is room for. Returns those that have one and did not get it."""
    sizes = {task.id: task.result_bytes for task in tasks if task.result_bytes is not None}  # type: ignore[attr-defined]
    room, wanted = RESULTS_BYTES, list[UUID]()
    for task_id, size in sizes.items():
        if size <= room:
            room -= size
            wanted.append(task_id)
    found = dict(Task.objects.filter(id__in=wanted).values_list("id", "result")) if wanted else {}
    for task in tasks:
        task.result = found.get(task.id)
    return sizes.keys() - found.keys()


def _task(
    job: Job, task: Task, moves: list[TaskEvent], reported: dict[UUID, Reported] | None, *, left_out: bool
) -> JobTaskOut:
    said = (reported or {}).get(task.id, NOTHING)
    return JobTaskOut(
        **dict(task_out(task, job=job)),
        after=task.after,
        required=task.required,
        weight=task.weight,
        progress=_share(task, said),
        progress_message=said.message,
        progress_known=reported is not None or task.status != TaskStatus.RUNNING,
        runs=[RunOut.model_validate(run, from_attributes=True) for run in runs_of(moves)],
        result_left_out=left_out,
    )


def _share(task: Task, reported: Reported) -> float | None:
    if task.status == TaskStatus.RUNNING:
        return reported.fraction
    return 1.0 if task.status in TASK_OVER else 0.0
