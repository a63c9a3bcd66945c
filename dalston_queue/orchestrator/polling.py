"""Polls once a second, in every orchestrator: work whose hint was lost, or whose process died between two steps.

Each poll takes what no other process has locked, so any number of orchestrators may poll at once. A poll takes one
batch of each kind, so that a large backlog doesn't keep events waiting; it says whether there is more.
"""

from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from dalston_queue.jobs.lifecycle.advance import Advanced, claim_jobs
from dalston_queue.jobs.lifecycle.dispatch import BATCH, dispatch, dispatch_oldest
from dalston_queue.jobs.lifecycle.stop import stop_tasks, stopping_jobs
from dalston_queue.jobs.operator.replay_batches import run_due_batches
from dalston_queue.orchestrator.scheduler import make_due_ready, submit_due

# Each second: jobs that no orchestrator has claimed.
PENDING = "SELECT id FROM dalston_job WHERE status = 'pending' ORDER BY id LIMIT %s"


def poll() -> bool:
    """True if there is more of what was found, and so reason to poll again at once."""
    submit_due(timezone.now())
    more = claim_pending()
    more = run_due_batches(timezone.now()) or more
    dispatch(make_due_ready(timezone.now()), timezone.now())
    dispatched = dispatch_oldest(timezone.now())
    if jobs := stopping_jobs():
        dispatch(stop_tasks(jobs, timezone.now(), skip_locked=True).ready, timezone.now())
    return more or (dispatched.seen == BATCH and dispatched.queued > 0)


def claim_pending() -> bool:
    """Claim a batch of jobs; True if there are more."""
    found = _pending()
    if not found:
        return False
    advanced = _claim(found)
    dispatch(advanced.ready, timezone.now())
    # A full batch of which nothing was claimed is in other hands.
    return len(found) == BATCH and bool(advanced.ready)


def _pending() -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(PENDING, [BATCH])
        return [row[0] for row in cursor.fetchall()]


@transaction.atomic
def _claim(found: list[UUID]) -> Advanced:
    return claim_jobs(found, timezone.now(), skip_locked=True)
