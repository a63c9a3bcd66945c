"""A job as the API shows it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from dalston_queue.api.problems import Code
from dalston_queue.api.task_out import TaskOut, task_out
from dalston_queue.broker.types import Priority
from dalston_queue.jobs.states import JobStatus
from dalston_queue.models import Job, Task


class JobOut(Schema):
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
    tasks: list[TaskOut] | None = Field(None, description="Only when one job is read, in the order of its stages.")


class BatchItem(Schema):
    """One job of a batch: accepted, found again under its key, or refused."""

    job_id: UUID | None = None
    task_ids: list[UUID] = Field(default_factory=list)
    created: bool = False
    code: Code | None = None
    detail: str | None = None


class BatchOut(Schema):
    accepted: int
    refused: int
    items: list[BatchItem] = Field(description="In the order of the request.")


def job_out(job: Job, tasks: Iterable[Task] | None = None) -> JobOut:
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
        tasks=None if tasks is None else [task_out(task, job=job) for task in tasks],
    )
