"""The periodic task that huey runs. Huey finds this file by its name (`manage.py run_huey`)."""

from huey import crontab
from huey.contrib.djhuey import db_periodic_task

from dalston_queue.orchestrator.duties.run import run_due_duties


@db_periodic_task(crontab())  # type: ignore[untyped-decorator]  # huey has no types
def housekeeping() -> None:
    """Each minute: the stale scanner and every other duty that is due. Of several huey processes one leads."""
    run_due_duties()
