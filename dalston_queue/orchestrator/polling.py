"""What every orchestrator looks for once a second: work whose hint was lost, or whose process died between two steps.

Each look takes what nobody else has locked, so any number of orchestrators may look at once.
"""

from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from dalston_queue.jobs.advance import Advanced, claim_jobs
from dalston_queue.jobs.dispatch import BATCH, dispatch, dispatch_oldest
from dalston_queue.jobs.recurring import submit_due
from dalston_queue.jobs.stop import stop_tasks, stopping_jobs
from dalston_queue.orchestrator.scheduler import make_due_ready

# Each second: jobs that nobody has claimed.
PENDING = "SELECT id FROM dalston_job WHERE status = 'pending' ORDER BY id LIMIT %s"


def look() -> None:
    submit_due(timezone.now())
    claim_pending()
    dispatch(make_due_ready(timezone.now()), timezone.now())
    dispatch_ready()
    if jobs := stopping_jobs():
        dispatch(stop_tasks(jobs, timezone.now(), skip_locked=True).ready, timezone.now())


def claim_pending() -> None:
    """Claim jobs until none is left or the rest is in other hands."""
    while found := _pending():
        advanced = _claim(found)
        dispatch(advanced.ready, timezone.now())
        if len(found) < BATCH:
            return


def dispatch_ready() -> None:
    while (done := dispatch_oldest(timezone.now())).queued and done.seen == BATCH:
        pass


def _pending() -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(PENDING, [BATCH])
        return [row[0] for row in cursor.fetchall()]


@transaction.atomic
def _claim(found: list[UUID]) -> Advanced:
    return claim_jobs(found, timezone.now(), skip_locked=True)
