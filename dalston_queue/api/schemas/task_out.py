"""A task as the API shows it, with its history where asked for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from pydantic import BaseModel, Field

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.submit.rows import NewTask
from dalston_queue.models import Job, Task, TaskEvent


class ErrorOut(BaseModel):
    message: str
    type: str
    cause: str = Field(description="error, rejected, engine_lost, node_lost, timeout, gpu_oom, rate_limited, …")


class EventOut(BaseModel):
    at: datetime
    transition: str
    from_status: TaskStatus
    to_status: TaskStatus
    attempt: int
    deliveries: int
    engine_id: str
    cause: str
    message: str


class TaskOut(BaseModel):
    task_id: UUID
    job_id: UUID
    task_type: str
    stage: str = Field(description="Its name in its job.")
    queue: str
    status: TaskStatus
    priority: Priority
    effective_priority: Priority = Field(description="Raised by waiting.")
    required_capabilities: list[str]
    parameters: dict[str, Any]
    timeout_seconds: int
    max_retries: int
    retry_count: int
    attempt: int
    deliveries: int = Field(description="Engines that died with it, in this attempt.")
    assigned_worker_id: str | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None = Field(description="When it was over, well or not.")
    result: Any = None
    error: ErrorOut | None
    trace_id: str
    queue_position: int | None = Field(
        None,
        description="In the answer to a submission: where it stands in line, as of a second ago; null if not known, "
        "or if it is scheduled for later.",
    )
    history: list[EventOut] | None = Field(None, description="Only with `include_history`.")


def task_out(task: Task, history: Iterable[TaskEvent] | None = None, job: Job | None = None) -> TaskOut:
    """From a row read with its job, or from a row and its job."""
    failed = task.error or task.error_cause
    return TaskOut(
        task_id=task.id,
        job_id=task.job_id,
        task_type=task.task_type,
        stage=task.stage,
        queue=task.queue,
        status=TaskStatus(task.status),
        priority=Priority(task.priority),
        effective_priority=Priority(task.effective_priority),
        required_capabilities=task.required_capabilities,
        parameters=task.parameters,
        timeout_seconds=task.timeout_seconds,
        max_retries=task.max_retries,
        retry_count=task.retry_count,
        attempt=task.attempt,
        deliveries=task.deliveries,
        assigned_worker_id=task.assigned_worker_id or None,
        created_at=task.created_at,
        scheduled_at=task.scheduled_at,
        started_at=task.started_at,
        completed_at=task.finished_at,
        result=task.result,
        error=ErrorOut(message=task.error, type=task.error_type, cause=task.error_cause) if failed else None,
        trace_id=(job or task.job).trace_id,
        queue_position=None,
        history=None if history is None else [_event_out(event) for event in history],
    )


def stored_task(task: NewTask, at: datetime, parameters: dict[str, Any]) -> Task:
    """The row of a task that was stored a moment ago, without a query."""
    fields = {**msgspec.structs.asdict(task), "parameters": parameters, "created_at": at}
    return Task(**fields, effective_priority=task.priority)


def _event_out(event: TaskEvent) -> EventOut:
    return EventOut(
        at=event.at,
        transition=event.transition,
        from_status=TaskStatus(event.from_status),
        to_status=TaskStatus(event.to_status),
        attempt=event.attempt,
        deliveries=event.deliveries,
        engine_id=event.engine_id,
        cause=event.cause,
        message=event.message,
    )
