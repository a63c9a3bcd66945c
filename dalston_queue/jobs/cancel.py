"""Cancels jobs and tasks: what waits is over at once, what runs is told to stop and ends with its engine's answer.

Racing a completion, the one whose transaction gets the job first wins; the other finds the task over.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import QuerySet

from dalston_queue import crash_points
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.types import Cause
from dalston_queue.jobs.advance import advance, request_stop
from dalston_queue.jobs.lifecycle import Change, lock_jobs, move_jobs, move_tasks
from dalston_queue.jobs.states import JOB_OVER, TASK_OVER
from dalston_queue.jobs.stop import stop_tasks
from dalston_queue.models import Job, Task

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What a request to cancel came to."""

    found: bool  # there is such a job or task
    already_over: bool  # it had ended before; nothing was changed
    status: str  # of what was cancelled, now
    was_running: bool  # something of it was in a stream or at an engine
    told: bool  # Redis knows, so the engines do within a second; if False, they are told as soon as Redis answers


NOT_FOUND = Cancellation(found=False, already_over=False, status="", was_running=False, told=False)


def words_of(actor: str, reason: str) -> str:
    """What a task that somebody cancelled says of it."""
    return f"cancelled by {actor}: {reason}" if reason else f"cancelled by {actor}"


def cancel_job(job_id: UUID, now: datetime, *, why: str = "cancelled on request") -> Cancellation:
    """Cancel a job and all of its tasks."""
    with transaction.atomic():
        job = lock_jobs([job_id]).get(job_id)
        if job is None:
            return NOT_FOUND
        if job.status in JOB_OVER:
            return Cancellation(found=True, already_over=True, status=job.status, was_running=False, told=False)
        move_jobs("wind_down", [job_id], now)
        _cancel_waiting(Task.objects.filter(job_id=job_id), now, why)
        running = request_stop([job_id], now)
        advance([job_id], now)
    crash_points.point("cancel.committed")
    told = _tell(job_id, now) if running else True
    status = Job.objects.values_list("status", flat=True).get(id=job_id)
    return Cancellation(found=True, already_over=False, status=status, was_running=running, told=told)


def cancel_task(task_id: UUID, now: datetime, *, why: str = "cancelled on request") -> Cancellation:
    """Cancel one task. A required task takes its job with it; an optional one only itself."""
    task = Task.objects.filter(id=task_id).only("job_id", "required").first()
    if task is None:
        return NOT_FOUND
    with transaction.atomic():
        lock_jobs([task.job_id])
        task.refresh_from_db(fields=["status"])
        if task.status in TASK_OVER:
            return Cancellation(found=True, already_over=True, status=task.status, was_running=False, told=False)
        if not task.required:
            _cancel_waiting(Task.objects.filter(id=task_id), now, why)
            running = request_stop([task.job_id], now, only=task_id)
            advance([task.job_id], now)
    if task.required:
        of_job = cancel_job(task.job_id, now, why=why)
        running, told = of_job.was_running, of_job.told
    else:
        told = _tell(task.job_id, now) if running else True
    task.refresh_from_db(fields=["status"])
    return Cancellation(found=True, already_over=False, status=task.status, was_running=running, told=told)


def _cancel_waiting(tasks: QuerySet[Task], now: datetime, why: str) -> None:
    """End those that no engine can have: they wait for others, for their time, or for dispatch."""
    rows = tasks.filter(status__in=["pending", "scheduled", "ready"]).values_list("id", "attempt")
    move_tasks(
        "cancel",
        [Change(task_id=task, attempt=attempt, at=now, cause=Cause.CANCELLED, message=why) for task, attempt in rows],
    )


def _tell(job_id: UUID, now: datetime) -> bool:
    """Tell Redis now rather than at the next poll. False if it does not answer: the poll will do it."""
    try:
        stop_tasks([job_id], now)
    except BrokerError as error:
        log.warning("redis does not answer; the engines are told later", job_id=str(job_id), error=str(error))
        return False
    return True
