"""The order of waiting tasks: which lanes there are, how many wait and run in each, and the limits of queues, projects
and keys."""

from django.db import models

from dalston_queue.models.accounts import Project

EACH_KEY = "*"
"""As the key of a limit: each key of the project has this limit for itself."""


class Depth(models.Model):
    """A change of how many tasks a project has in one lane and tier. The sum of its rows is the number, always exact.

    Each statement that makes or moves tasks writes one row per lane, tier and project. A counter that every
    transaction updates would make all of them wait for each other. `jobs/order/depth.py` adds the rows of a lane up
    when they have become many.
    """

    id = models.BigAutoField(primary_key=True)
    lane = models.CharField(max_length=800, db_collation="C")
    tier = models.CharField(max_length=9)
    project = models.ForeignKey(
        Project, on_delete=models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False
    )
    # Not over, and waits for other stages, for its time or for an orchestrator.
    pending = models.IntegerField(default=0, db_default=0)
    ready = models.IntegerField()
    queued = models.IntegerField()
    running = models.IntegerField()

    class Meta:
        db_table = "dalston_depth"
        indexes = [
            # Refill, after each batch of events: WHERE lane = ANY(%s)
            models.Index(fields=["lane"], name="depth_by_lane"),
        ]

    def __str__(self) -> str:
        return f"{self.lane} {self.tier}: {self.ready:+d} ready, {self.queued:+d} queued, {self.running:+d} running"


class Lane(models.Model):
    """A lane that was submitted to. The plain lane of a queue stands for the queue, and comes with its first task.

    Clients name queues and capabilities, and each name makes keys in Redis, rows on pages and series in metrics: so
    they are counted here when a task is submitted, and forgotten when they are not used.
    """

    name = models.CharField(primary_key=True, max_length=800, db_collation="C")
    queue = models.CharField(max_length=41)
    # The first to use it; null for one that was found in Redis.
    project = models.ForeignKey(Project, on_delete=models.SET_NULL, null=True, related_name="+")
    used_at = models.DateTimeField(help_text="when a task was submitted to it, to the minute")

    class Meta:
        db_table = "dalston_lane"
        indexes = [
            # At a submission to a new lane: WHERE queue = ANY(%s)
            models.Index(fields=["queue"], name="lane_by_queue"),
            # Duty, each minute: WHERE used_at < %s ORDER BY used_at
            models.Index(fields=["used_at"], name="lane_by_use"),
        ]

    def __str__(self) -> str:
        return self.name


class Limit(models.Model):
    """A limit of what is in flight (queued or running), or of starts per minute: of a queue, a project, a key of a
    project, or of a project or key in one queue."""

    id = models.BigAutoField(primary_key=True)
    queue = models.CharField(max_length=41, blank=True, default="", help_text="empty: all queues together")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="limits")
    concurrency_key = models.CharField(
        max_length=80, blank=True, default="", db_collation="C", help_text="of the project; *: each key for itself"
    )
    max_in_flight = models.PositiveIntegerField(null=True, blank=True, help_text="0 stops it")
    starts_per_minute = models.PositiveIntegerField(null=True, blank=True)
    # The token bucket of starts_per_minute: how many were left at that time.
    tokens = models.FloatField(default=0.0, editable=False)
    filled_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "dalston_limit"
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "project", "concurrency_key"], name="one_limit_each", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=~models.Q(queue="") | models.Q(project__isnull=False), name="limit_names_queue_or_project"
            ),
            models.CheckConstraint(
                condition=models.Q(concurrency_key="") | models.Q(project__isnull=False), name="limit_key_has_project"
            ),
            models.CheckConstraint(
                condition=models.Q(max_in_flight__isnull=False) | models.Q(starts_per_minute__isnull=False),
                name="limit_limits_something",
            ),
            models.CheckConstraint(
                condition=~models.Q(concurrency_key=EACH_KEY) | models.Q(starts_per_minute__isnull=True),
                name="limit_of_each_key_in_flight_only",
            ),
            models.CheckConstraint(
                condition=models.Q(starts_per_minute__isnull=True) | models.Q(starts_per_minute__gt=0),
                name="limit_starts_above_zero",
            ),
        ]

    def __str__(self) -> str:
        return f"limit of {self.scope}"

    @property
    def is_of_each_key(self) -> bool:
        return self.concurrency_key == EACH_KEY

    @property
    def scope(self) -> str:
        """What it limits, in words: `queue transcribe, project acme, each key`."""
        parts = [f"queue {self.queue}"] if self.queue else []
        parts += [f"project {self.project.name}"] if self.project else []
        if self.concurrency_key:
            parts.append("each key" if self.is_of_each_key else f"key {self.concurrency_key}")
        return ", ".join(parts)
