"""Tells Redis and engines to stop the tasks of jobs that are ending, and ends those that no engine has.

Repeatable and polled: a job stays `cancelling` until each of its tasks is over, whoever dies in between.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from dalston_queue.broker.types import Cause, Removed
from dalston_queue.jobs.advance import Advanced, advance
from dalston_queue.jobs.lifecycle import Change, lock_jobs, move_tasks
from dalston_queue.redis import get_broker

# Each second, for jobs in `cancelling`.
STOPPING = "SELECT id FROM dalston_job WHERE status = 'cancelling' ORDER BY id LIMIT %s"
_TO_STOP = """
    SELECT id, queue, attempt FROM dalston_task
    WHERE job_id = ANY(%s) AND status IN ('queued', 'running') AND cancel_requested_at IS NOT NULL
    ORDER BY id"""


def stopping_jobs(limit: int = 100) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(STOPPING, [limit])
        return [row[0] for row in cursor.fetchall()]


@transaction.atomic
def stop_tasks(job_ids: Collection[UUID], now: datetime, *, skip_locked: bool = False) -> Advanced:
    """Ask Redis about every task that should stop. One that waits is removed and over; one that runs is told, and its
    engine's answer ends it; one that has settled will be ended by its event."""
    jobs = lock_jobs(job_ids, skip_locked=skip_locked)
    with connection.cursor() as cursor:
        cursor.execute(_TO_STOP, [list(jobs)])
        rows: list[tuple[UUID, str, int]] = cursor.fetchall()
    broker = get_broker()
    over = [
        Change(task_id=task, attempt=attempt, at=now, cause=Cause.CANCELLED, message="it was stopped before it ran")
        for task, queue, attempt in rows
        if broker.request_cancel(queue, str(task), attempt) in (Removed.REMOVED, Removed.ABSENT)
    ]
    move_tasks("cancel", over)
    return advance(jobs, now)
