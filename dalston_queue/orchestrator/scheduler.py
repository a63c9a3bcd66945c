"""Makes scheduled tasks ready when their time has come: wanted start times and retries alike.

No leader is needed: each look takes a batch whose jobs nobody else has locked. If Redis is away the tasks become READY,
which dispatch finds again; if Postgres is away they stay due.
"""

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from dalston_queue.jobs.lifecycle.status import Change, Moved, lock_jobs, move_tasks
from dalston_queue.orchestrator import counters

# Each second.
DUE = """
    SELECT id, job_id, attempt, scheduled_at FROM dalston_task
    WHERE status = 'scheduled' AND scheduled_at <= %s ORDER BY scheduled_at LIMIT %s"""
NEXT = "SELECT scheduled_at FROM dalston_task WHERE status = 'scheduled' ORDER BY scheduled_at LIMIT 1"


def make_due_ready(now: datetime) -> list[Moved]:
    """All that is due, batch by batch; returns the tasks that are READY now, to be dispatched."""
    ready: list[Moved] = []
    size: int = settings.DALSTON_SCHEDULER_BATCH
    with counters.FAILED.count_exceptions():
        while True:
            seen, moved = _batch(now, size)
            ready += moved
            # A full batch of which nothing moved is in other hands.
            if seen < size or not moved:
                return ready


def rest_s(now: datetime) -> float:
    """How long until the next look: an interval; less, but at least half of it, if something is due before."""
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
    counters.SCANNED.inc(len(rows))
    counters.QUEUED.inc(len(moved))
    due_at = {task: at for task, _, _, at in rows}
    for move in moved:
        counters.LATENESS.observe((now - due_at[move.task_id]).total_seconds())
    return len(rows), moved
