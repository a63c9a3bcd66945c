"""Recurring jobs: at each tick of a schedule, one job.

The tick is moved on in the transaction that makes the job, under the row's lock, so a tick gives at most one job,
however many orchestrators look. Ticks missed while nothing ran give one job, not many.
"""

from datetime import datetime

import structlog
from django.db import transaction

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import JobsError
from dalston_queue.jobs.submit.cron import next_tick
from dalston_queue.jobs.submit.spec import JobSpec, stage_from
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Schedule

log = structlog.get_logger(__name__)


@transaction.atomic
def submit_due(now: datetime, limit: int = 100) -> int:
    """Make the jobs of every schedule whose tick has come; returns how many."""
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
