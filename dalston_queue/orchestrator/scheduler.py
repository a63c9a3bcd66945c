"""The scheduler: makes due tasks ready, and submits the jobs of due schedules.

No leader is needed: each poll takes a batch that no other process has locked. If Redis is away the tasks become READY,
and dispatch finds them later; if Postgres is away they stay due.
"""

from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import JobsError
from dalston_queue.jobs.lifecycle.status import Change, Moved, lock_jobs, move_tasks
from dalston_queue.jobs.submit.spec import JobSpec, stage_from
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.metrics import processes as metrics
from dalston_queue.models import Schedule
from dalston_queue.models.schedule import next_tick

log = structlog.get_logger(__name__)

# Each second.
DUE = """
    SELECT id, job_id, attempt, scheduled_at FROM dalston_task
    WHERE status = 'scheduled' AND scheduled_at <= %s ORDER BY scheduled_at LIMIT %s"""
NEXT = "SELECT scheduled_at FROM dalston_task WHERE status = 'scheduled' ORDER BY scheduled_at LIMIT 1"


def make_due_ready(now: datetime) -> list[Moved]:
    """Make all due tasks READY, batch by batch; returns them, to be dispatched."""
    ready: list[Moved] = []
    size: int = settings.DALSTON_SCHEDULER_BATCH
    with metrics.SCHEDULER_FAILED.count_exceptions():
        while True:
            seen, moved = _batch(now, size)
            ready += moved
            # If none of a full batch moved, other orchestrators have locked these jobs.
            if seen < size or not moved:
                return ready


def next_poll_in_s(now: datetime) -> float:
    """Seconds until the next poll: the interval, or down to half of it if a task is due before."""
    interval: float = settings.DALSTON_SCHEDULER_INTERVAL_S
    with connection.cursor() as cursor:
        cursor.execute(NEXT)
        row: tuple[datetime] | None = cursor.fetchone()
    if row is None:
        return interval
    return min(interval, max(interval / 2, (row[0] - now).total_seconds()))


@transaction.atomic
def _batch(now: datetime, size: int) -> tuple[int, list[Moved]]:
    with connection.cursor() as cursor:
        cursor.execute(DUE, [now, size])
        rows: list[tuple[UUID, UUID, int, datetime]] = cursor.fetchall()
    if not rows:
        return 0, []
    free = lock_jobs((job for _, job, _, _ in rows), skip_locked=True)
    changes = [Change(task_id=task, attempt=attempt, at=now) for task, job, attempt, _ in rows if job in free]
    moved = move_tasks("due", changes)
    metrics.SCANNED.inc(len(rows))
    metrics.DUE.inc(len(moved))
    due_at = {task: at for task, _, _, at in rows}
    for move in moved:
        metrics.LATENESS.observe((now - due_at[move.task_id]).total_seconds())
    return len(rows), moved


@transaction.atomic
def submit_due(now: datetime, limit: int = 100) -> int:
    """Submit a job for every schedule whose tick has come; returns how many.

    `next_at` is advanced in the transaction that stores the job, under the row's lock: a tick makes at most one job,
    however many orchestrators poll. Ticks missed while no orchestrator ran make one job, not many.
    """
    due = Schedule.objects.select_for_update(skip_locked=True, of=("self",)).select_related("project")
    made = 0
    for schedule in due.filter(enabled=True, next_at__lte=now).order_by("next_at")[:limit]:
        schedule.next_at = next_tick(schedule.cron, schedule.time_zone, now)
        schedule.last_error = ""
        try:
            stages = tuple(stage_from(stage) for stage in schedule.stages)
            spec = JobSpec(name=schedule.name, stages=stages, priority=Priority(schedule.priority))
            schedule.last_job_id = submit(spec, project=schedule.project).job_id
            made += 1
        except JobsError as error:
            schedule.last_error = str(error)
            log.error("a recurring job could not be made", schedule=schedule.name, error=str(error))
        schedule.save(update_fields=["next_at", "last_error", "last_job"])
    return made
