"""Deletes jobs that are over, with their tasks and history: one on request, expired ones by housekeeping."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection, transaction

from dalston_queue.jobs.artifacts import RELEASE
from dalston_queue.jobs.lifecycle.states import JOB_OVER
from dalston_queue.jobs.lifecycle.status import lock_jobs

# In the order of their foreign keys.
_DELETE_JOBS = (
    "DELETE FROM dalston_task_event WHERE task_id IN (SELECT id FROM dalston_task WHERE job_id = ANY(%s))",
    "DELETE FROM dalston_dead_letter WHERE task_id IN (SELECT id FROM dalston_task WHERE job_id = ANY(%s))",
    "DELETE FROM dalston_idempotency_key WHERE job_id = ANY(%s)",
    "DELETE FROM dalston_webhook_delivery WHERE job_id = ANY(%s)",
    "UPDATE dalston_schedule SET last_job_id = NULL WHERE last_job_id = ANY(%s)",
    RELEASE,
    "DELETE FROM dalston_task WHERE job_id = ANY(%s)",
    "DELETE FROM dalston_job WHERE id = ANY(%s)",
)


def delete_jobs(jobs: Sequence[UUID]) -> None:
    """Inside the transaction that has locked them."""
    with connection.cursor() as cursor:
        for statement in _DELETE_JOBS:
            cursor.execute(statement, [list(jobs)])


@transaction.atomic
def delete_over(job_id: UUID) -> bool:
    """False: there is no such job, or it is not over."""
    job = lock_jobs([job_id]).get(job_id)
    if job is None or job.status not in JOB_OVER:
        return False
    delete_jobs([job_id])
    return True
