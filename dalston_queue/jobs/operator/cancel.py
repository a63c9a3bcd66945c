"""Cancels jobs and tasks. A waiting task ends at once; a running one is asked to stop, and its engine's answer ends it.

Racing a completion, the transaction that locks the job first wins; the other finds the task over. An engine may have
completed a task before the request reached it: then its completion counts, and the cancel was too late.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.advance import advance, request_stop
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER, JobStatus, TaskStatus
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_jobs, move_tasks
from dalston_queue.jobs.lifecycle.stop import stop_tasks
from dalston_queue.models import Job, Task

log = structlog.get_logger(__name__)
CANCELLED = "cancelled"  # of a job and of a task


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The outcome of a request to cancel."""

    found: bool = True  # there is such a job or task
    already_over: bool = False  # it had ended before; nothing was changed
    too_late: bool = (
        False  # it ended without being cancelled, before or while it was asked to stop; nothing was stopped
    )
    status: str = ""  # of the job or task, now
    was_running: bool = False  # an engine had the task, or a task of the job
    sent: bool = False  # an engine was asked to stop
    reached: bool = True  # False: Redis did not answer; an orchestrator asks the engines when it does

    @classmethod
    def refused(cls, status: str) -> "Cancellation":
        return cls(already_over=True, too_late=status != CANCELLED, status=status)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The outcome of a cancel's first transaction: tasks that it ended, and the status of those asked to stop."""

    ended: frozenset[UUID]
    to_stop: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The outcome of a cancel's second transaction: the status of the job and of the tasks, read at once."""

    job: str
    tasks: Mapping[UUID, str]
    running: frozenset[UUID]  # tasks that engines had
    sent: frozenset[UUID]  # of those, the ones that engines were asked to stop
    reached: bool

    @property
    def too_late(self) -> bool:
        """Every task ended without being cancelled."""
        return all(status in TASK_OVER - {CANCELLED} for status in self.tasks.values())


def cancel_message(actor: str, reason: str) -> str:
    """The message of a task that was cancelled."""
    return f"cancelled by {actor}: {reason}" if reason else f"cancelled by {actor}"


def cancel_job(job_id: UUID, now: datetime, *, why: str = "cancelled on request") -> Cancellation:
    """Cancel a job and all of its tasks. A job that has only optional tasks left completes when those are stopped."""
    with transaction.atomic():
        job = lock_jobs([job_id]).get(job_id)
        if job is None:
            return Cancellation(found=False)
        if job.status in JOB_OVER:
            return Cancellation.refused(job.status)
        asked = _cancel_all(job_id, now, why)
    stopped = _stop(job_id, asked, now)
    return Cancellation(
        too_late=stopped.job in JOB_OVER - {CANCELLED} and stopped.too_late,
        status=stopped.job,
        was_running=bool(stopped.running),
        sent=bool(stopped.sent),
        reached=stopped.reached,
    )


def cancel_task(task_id: UUID, now: datetime, *, why: str = "cancelled on request") -> Cancellation:
    """Cancel one task. Cancelling a required task cancels its job."""
    task = Task.objects.filter(id=task_id).only("job_id", "required").first()
    if task is None:
        return Cancellation(found=False)
    with transaction.atomic():
        lock_jobs([task.job_id])
        task.refresh_from_db(fields=["status"])
        if task.status in TASK_OVER:
            return Cancellation.refused(task.status)
        asked = (_cancel_all if task.required else partial(_cancel_only, task_id))(task.job_id, now, why)
    stopped = _stop(task.job_id, asked, now)
    status = stopped.tasks[task_id]
    return Cancellation(
        too_late=stopped.too_late,
        status=status,
        was_running=task_id in stopped.running,
        sent=task_id in stopped.sent,
        reached=stopped.reached,
    )


def job_stops_already(job_id: UUID) -> Cancellation | None:
    """The answer to a cancel that can change nothing; None: it can. An engine that was not reached is asked again."""
    status = Job.objects.filter(id=job_id).values_list("status", flat=True).first()
    if status is None:
        return Cancellation(found=False)
    if status in JOB_OVER:
        return Cancellation.refused(status)
    tasks = Task.objects.filter(job_id=job_id)
    return _stopping(job_id, status, tasks) if status == JobStatus.CANCELLING else None


def task_stops_already(task_id: UUID) -> Cancellation | None:
    """The same for one task."""
    fields = ("status", "required", "job_id", "job__status")
    task = Task.objects.filter(id=task_id).select_related("job").only(*fields).first()
    if task is None:
        return Cancellation(found=False)
    if task.status in TASK_OVER:
        return Cancellation.refused(task.status)
    if not task.required:
        return _stopping(task.job_id, task.status, Task.objects.filter(id=task_id))
    if task.job.status != JobStatus.CANCELLING:
        return None
    return _stopping(task.job_id, task.status, Task.objects.filter(job_id=task.job_id))


def _stopping(job_id: UUID, status: str, tasks: QuerySet[Task]) -> Cancellation | None:
    """None if one of these tasks is not over, and was not asked to stop."""
    rows = list(tasks.filter(finished_at__isnull=True).values_list("id", "status", "cancel_requested_at"))
    if not rows or any(requested_at is None for _, _, requested_at in rows):
        return None
    stopped = _stop(job_id, _Asked(frozenset(), {task: was for task, was, _ in rows}), timezone.now())
    return Cancellation(
        status=status,
        was_running=bool(stopped.running),
        sent=bool(stopped.sent),
        reached=stopped.reached,
    )


def _cancel_all(job_id: UUID, now: datetime, why: str) -> _Asked:
    move_jobs("wind_down", [job_id], now)
    ended = _cancel_waiting(Task.objects.filter(job_id=job_id), now, why)
    to_stop = request_stop([job_id], now)
    advance([job_id], now)
    return _Asked(ended, to_stop)


def _cancel_only(task_id: UUID, job_id: UUID, now: datetime, why: str) -> _Asked:
    ended = _cancel_waiting(Task.objects.filter(id=task_id), now, why)
    to_stop = request_stop([job_id], now, only=task_id)
    advance([job_id], now)
    return _Asked(ended, to_stop)


def _cancel_waiting(tasks: QuerySet[Task], now: datetime, why: str) -> frozenset[UUID]:
    """End the tasks that no engine can have: they wait for other stages, for their time, or for dispatch."""
    rows = tasks.filter(status__in=["pending", "scheduled", "ready"]).values_list("id", "attempt")
    moved = move_tasks(
        "cancel",
        [Change(task_id=task, attempt=attempt, at=now, cause=Cause.CANCELLED, message=why) for task, attempt in rows],
    )
    return frozenset(move.task_id for move in moved)


def _stop(job_id: UUID, asked: _Asked, now: datetime) -> _Stopped:
    """Ask the engines now rather than at the next poll. If Redis does not answer, a later poll does it.

    The outcome is read before the job's lock is released: an event that is applied a moment later would make the answer
    contradict itself.
    """
    crash_points.point("cancel.committed")
    reached = True
    with transaction.atomic():
        lock_jobs([job_id])
        if asked.to_stop:
            try:
                stop_tasks([job_id], now)
            except BrokerError as error:
                log.warning(
                    "redis does not answer; the engines are asked to stop later", job_id=str(job_id), error=str(error)
                )
                reached = False
        job = Job.objects.values_list("status", flat=True).get(id=job_id)
        rows = list(Task.objects.filter(id__in=asked.to_stop).values_list("id", "status", "cancel_sent_at"))
    seen = {task: status for task, status, _ in rows}
    # A task that is over by now waited in its queue, even if an engine that has died since was asked to stop it.
    sent = frozenset(task for task, status, sent_at in rows if sent_at is not None and status not in TASK_OVER)
    running = {task for task, status in asked.to_stop.items() if status == TaskStatus.RUNNING}
    running |= {task for task, status in seen.items() if status not in (TaskStatus.QUEUED, CANCELLED)}
    tasks = {**dict.fromkeys(asked.ended, CANCELLED), **seen}
    return _Stopped(job, tasks, sent.union(running), sent, reached)  # sent: its start may not be recorded yet
