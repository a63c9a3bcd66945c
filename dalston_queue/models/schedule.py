"""Schedules of recurring jobs: a cron expression in a time zone, and the stages of the job to submit at each tick.

Clock changes are handled as Debian's cron does.
"""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.ids import uuid7
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.models.accounts import Project
from dalston_queue.models.fields import choices, one_of
from dalston_queue.models.job import Job


def next_tick(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """The first tick after this time, or None if there is none within 50 years. Raises InvalidJob for bad input."""
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise InvalidJob(f"there is no time zone {time_zone!r}") from None
    try:
        tick = next(CronSim(cron, after.astimezone(zone)), None)
    except CronSimError as error:
        raise InvalidJob(f"{cron!r} is no cron expression: {error}") from None
    return None if tick is None else tick.astimezone(UTC)


class Schedule(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="schedules")
    name = models.SlugField(max_length=80)
    cron = models.CharField(max_length=100, help_text="minute hour day month weekday, for instance `0 6 * * mon-fri`")
    time_zone = models.CharField(max_length=60, default="UTC", help_text="for instance `Europe/London`")
    priority = models.CharField(max_length=6, choices=choices(Priority), default=Priority.MEDIUM.value)
    stages = models.JSONField(help_text="as in POST /jobs: [{stage, queue, after, parameters, …}]")
    enabled = models.BooleanField(default=True)
    next_at = models.DateTimeField(null=True, editable=False, help_text="the next tick")
    last_job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, blank=True, editable=False, db_index=False)
    last_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        db_table = "dalston_schedule"
        indexes = [
            # Scheduler, each second: WHERE enabled AND next_at <= now() ORDER BY next_at
            models.Index(fields=["next_at"], name="schedule_due", condition=models.Q(enabled=True)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_schedule_per_name"),
            one_of("priority", Priority, "schedule_priority_known"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.cron} {self.time_zone}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """A new or changed schedule starts with its next tick, never with a past one."""
        if kwargs.get("update_fields") is None:
            self.next_at = next_tick(self.cron, self.time_zone, timezone.now())
        super().save(*args, **kwargs)

    def clean(self) -> None:
        try:
            next_tick(self.cron, self.time_zone, timezone.now())
        except InvalidJob as error:
            raise ValidationError(str(error)) from None
