"""Stops tasks whose cancel was requested: removes them from Redis, asks engines, ends those that no engine has.

Repeatable and polled: such a task keeps `cancel_requested_at` until it is over, so any orchestrator can go on with it.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, Removed
from dalston_queue.jobs.lifecycle.advance import Advanced, advance
from dalston_queue.jobs.lifecycle.status import Change, id_array, lock_jobs, move_tasks
from dalston_queue.redis import get_broker

# An engine sees the request within a second. If it hasn't answered after this, it loses the task: a later result is
# refused.
GRACE = timedelta(seconds=30)

# Each second.
STOPPING = """
    SELECT DISTINCT job_id FROM (
        SELECT job_id FROM dalston_task
        WHERE cancel_requested_at IS NOT NULL AND status IN ('queued', 'running') ORDER BY id LIMIT %s
    ) AS asked"""
_TO_STOP = """
    SELECT id, queue, attempt, cancel_requested_at FROM dalston_task
    WHERE job_id = ANY(%s::uuid[]) AND status IN ('queued', 'running') AND cancel_requested_at IS NOT NULL
    ORDER BY id"""
_SENT = "UPDATE dalston_task SET cancel_sent_at = %s WHERE id = ANY(%s::uuid[]) AND cancel_sent_at IS NULL"


def stopping_jobs(limit: int = 500) -> list[UUID]:
    """Jobs with tasks that were asked to stop and still run."""
    with connection.cursor() as cursor:
        cursor.execute(STOPPING, [limit])
        return [row[0] for row in cursor.fetchall()]


@transaction.atomic
def stop_tasks(job_ids: Collection[UUID], now: datetime, *, skip_locked: bool = False) -> Advanced:
    """Stop the marked tasks of these jobs: a waiting task is removed and ended here, a running one ends with the answer
    of its engine, a settled one ends with its event."""
    jobs = lock_jobs(job_ids, skip_locked=skip_locked)
    with connection.cursor() as cursor:
        cursor.execute(_TO_STOP, [id_array(jobs)])
        rows: list[tuple[UUID, str, int, datetime]] = cursor.fetchall()
    over: list[Change] = []
    sent: list[UUID] = []
    for task, queue, attempt, requested_at in rows:
        found = _ask(queue, task, attempt, overdue=now - requested_at > GRACE)
        if found is Removed.FLAGGED:
            sent.append(task)
        elif found in (Removed.REMOVED, Removed.ABSENT):  # no event will end it
            why = "it was stopped before it ran"
            over.append(Change(task_id=task, attempt=attempt, at=now, cause=Cause.CANCELLED, message=why))
    if sent:
        with connection.cursor() as cursor:
            cursor.execute(_SENT, [now, id_array(sent)])
    move_tasks("cancel", over)
    return advance(jobs, now)


def _ask(queue: str, task: UUID, attempt: int, *, overdue: bool) -> Removed:
    """Remove the task, or ask its engine to stop it; an engine that did not answer in time loses it."""
    broker = get_broker()
    found = broker.request_cancel(queue, str(task), attempt)
    if found is Removed.FLAGGED and overdue:
        error = ErrorInfo(message="its engine did not stop it when asked", cause=Cause.CANCELLED)
        broker.expire(queue, str(task), attempt, error)
    return found
