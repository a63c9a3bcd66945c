"""Tasks and their history.

A task is one stage of a job, on one engine at a time. Its `attempt` only grows; a result counts for one attempt.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from dalston_queue.broker.protocol.types import SUSPECT_FROM, Priority, Tier
from dalston_queue.ids import uuid7
from dalston_queue.jobs.lifecycle.states import TASK_OVER, TaskStatus
from dalston_queue.models.accounts import Project
from dalston_queue.models.fields import choices, one_of, over_has_time
from dalston_queue.models.job import Job

IN_FLIGHT = models.Q(status__in=["queued", "running"])
"""In Redis: in a window, or at an engine."""


class Task(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks", db_index=False)  # unique(job, stage)
    # Of its job: the order of the waiting tasks goes by it.
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    stage = models.CharField(max_length=64, help_text="its unique name in its job")
    queue = models.CharField(max_length=41, help_text="the queue that engines claim it from")
    task_type = models.CharField(max_length=64)
    after = ArrayField(models.CharField(max_length=64), default=list, help_text="stages that must be over first")
    required = models.BooleanField(default=True)
    weight = models.FloatField(default=1.0, help_text="its share of the job's progress")
    # Changed by jobs/lifecycle/status.py only.
    status = models.CharField(
        max_length=12, choices=choices(TaskStatus), default=TaskStatus.PENDING.value, editable=False
    )
    priority = models.CharField(max_length=6, choices=choices(Priority), default=Priority.MEDIUM.value)
    effective_priority = models.CharField(max_length=6, choices=choices(Priority), default=Priority.MEDIUM.value)
    required_capabilities = ArrayField(models.CharField(max_length=41), default=list)
    # "C": compared by bytes, so that the queries that skip from group to group have a greatest value.
    lane = models.CharField(
        max_length=800, db_collation="C", help_text="its queue, with @ and its capabilities if it needs any"
    )
    tier = models.GeneratedField(
        expression=models.Case(
            models.When(deliveries__gte=SUSPECT_FROM, then=models.Value(Tier.SUSPECT.value)),
            default=models.F("effective_priority"),
        ),
        output_field=models.CharField(max_length=9),
        db_persist=True,
    )
    concurrency_key = models.CharField(
        max_length=80, blank=True, default="", db_collation="C", help_text="shares and limits count by it"
    )
    parameters = models.JSONField(default=dict)
    timeout_seconds = models.PositiveIntegerField()
    entry_bytes = models.PositiveIntegerField(
        default=0, db_default=0, help_text="of its entry in Redis, if that is large (jobs/order/large.py)"
    )
    attempt = models.PositiveIntegerField(default=1)
    # Of the last event applied at this attempt; an event applies only if its own is greater.
    event_seq = models.BigIntegerField(default=0)
    # Budgets, each counted apart: failures, engine crashes, lost nodes.
    max_retries = models.PositiveSmallIntegerField()
    retry_count = models.PositiveSmallIntegerField(default=0)
    deliveries = models.PositiveSmallIntegerField(default=0)
    node_losses = models.PositiveSmallIntegerField(default=0)
    assigned_worker_id = models.CharField(max_length=200, blank=True, default="")
    result = models.JSONField(null=True, blank=True)
    error = models.TextField(blank=True, default="")
    error_type = models.CharField(max_length=200, blank=True, default="")
    error_cause = models.CharField(max_length=20, blank=True, default="")
    error_retriable = models.BooleanField(null=True, blank=True, help_text="as its engine reported it")
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True, blank=True, help_text="not before this time")
    first_enqueued_at = models.DateTimeField(
        null=True, blank=True, help_text="when it was READY for the first time; its place and its ageing go by it"
    )
    queued_at = models.DateTimeField(null=True, blank=True, help_text="when it was last put into its window in Redis")
    started_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_sent_at = models.DateTimeField(null=True, blank=True, help_text="when its engine was asked to stop")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_task"
        indexes = [
            # Advance: children of a job that wait: WHERE job_id = ANY(%s) AND status = 'pending'
            models.Index(fields=["job"], name="task_pending", condition=models.Q(status="pending")),
            # Refill: the groups that wait in a lane and tier, one after the other, and the oldest tasks of each:
            # WHERE status = 'ready' AND lane = %s AND tier = %s AND (project_id, concurrency_key) > (%s, %s)
            models.Index(
                fields=["lane", "tier", "project", "concurrency_key", "first_enqueued_at", "id"],
                name="task_ready_by_group",
                condition=models.Q(status="ready"),
            ),
            # Ageing, the oldest age, the list of waiting tasks: the same without a group, ORDER BY first_enqueued_at
            models.Index(
                fields=["lane", "tier", "first_enqueued_at", "id"],
                name="task_ready_by_age",
                condition=models.Q(status="ready"),
            ),
            # Scheduler, each second: WHERE status = 'scheduled' AND scheduled_at <= now() ORDER BY scheduled_at
            models.Index(fields=["scheduled_at"], name="task_scheduled", condition=models.Q(status="scheduled")),
            # Reconciler, page by page, and what each group has in flight:
            # WHERE queue = %s AND status IN ('queued', 'running') ORDER BY project_id, concurrency_key, id
            models.Index(
                fields=["queue", "project", "concurrency_key", "id"], name="task_in_flight", condition=IN_FLIGHT
            ),
            # Stop, each second: WHERE cancel_requested_at IS NOT NULL AND status IN ('queued', 'running') ORDER BY id
            models.Index(
                fields=["id"],
                name="task_stopping",
                condition=IN_FLIGHT & models.Q(cancel_requested_at__isnull=False),
            ),
            # Refill, what large entries of each project take: WHERE entry_bytes > 0 AND status IN ('queued', 'running')
            models.Index(
                fields=["project"],
                include=["entry_bytes"],
                name="task_large_in_flight",
                condition=IN_FLIGHT & models.Q(entry_bytes__gt=0),
            ),
            # Queue stats, throughput of the last minute: WHERE finished_at > %s
            models.Index(fields=["finished_at"], name="task_finished", condition=models.Q(finished_at__isnull=False)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job", "stage"], name="one_task_per_stage"),
            one_of("status", TaskStatus, "task_status_known"),
            one_of("priority", Priority, "task_priority_known"),
            one_of("effective_priority", Priority, "task_effective_priority_known"),
            over_has_time(TASK_OVER, "task_over_has_time"),
            models.CheckConstraint(condition=models.Q(attempt__gte=1), name="task_attempt_from_one"),
            models.CheckConstraint(condition=models.Q(weight__gt=0), name="task_weight_positive"),
            models.CheckConstraint(condition=models.Q(timeout_seconds__gt=0), name="task_timeout_positive"),
            models.CheckConstraint(
                condition=~models.Q(status="scheduled") | models.Q(scheduled_at__isnull=False),
                name="task_scheduled_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stage} {self.id}"


class TaskEvent(models.Model):
    """One transition of one task, written by the statement that moves it. Never changed, only expired."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="events", db_index=False)
    transition = models.CharField(max_length=12, help_text="its name in the transition table")
    from_status = models.CharField(max_length=12, choices=choices(TaskStatus))
    to_status = models.CharField(max_length=12, choices=choices(TaskStatus))
    attempt = models.PositiveIntegerField(help_text="the attempt after the transition")
    deliveries = models.PositiveSmallIntegerField()
    engine_id = models.CharField(max_length=200, blank=True, default="")
    cause = models.CharField(max_length=20, blank=True, default="")
    message = models.TextField(blank=True, default="")
    at = models.DateTimeField()

    class Meta:
        db_table = "dalston_task_event"
        indexes = [
            # A task's history: WHERE task_id = %s ORDER BY id
            models.Index(fields=["task", "id"], name="event_by_task"),
            # Samples, retries of the last minute by reason: WHERE transition = 'retry' AND at >= %s AND at < %s
            models.Index(fields=["at"], name="event_retries", condition=models.Q(transition="retry")),
            # Queue stats, recoveries of the last hour: WHERE transition = 'recover' AND at > %s
            models.Index(fields=["at"], name="event_recoveries", condition=models.Q(transition="recover")),
        ]

    def __str__(self) -> str:
        return f"{self.from_status} -> {self.to_status} (attempt {self.attempt})"
