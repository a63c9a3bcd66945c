"""Jobs, and the idempotency keys of their requests.

A job is one or more tasks that succeed or fail together; a single task is a job of one. The keys are in Postgres, so
they survive the loss of Redis.
"""

from django.db import models

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.ids import uuid7
from dalston_queue.jobs.lifecycle.states import JOB_OVER, JobStatus
from dalston_queue.models.accounts import ApiToken, Project
from dalston_queue.models.fields import choices, one_of, over_has_time


class Job(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, blank=True, db_index=False)
    name = models.CharField(max_length=120, help_text="the pipeline's name, or the task type of a job of one")
    # Changed by jobs/lifecycle/status.py only.
    status = models.CharField(
        max_length=12, choices=choices(JobStatus), default=JobStatus.PENDING.value, editable=False
    )
    priority = models.CharField(max_length=6, choices=choices(Priority), default=Priority.MEDIUM.value)
    parameters = models.JSONField(default=dict)
    trace_id = models.CharField(max_length=64)
    callback_url = models.TextField(blank=True, default="", db_default="", help_text="called when the job is over")
    progress = models.FloatField(default=0.0, help_text="weighted share of its tasks that are over, 0 to 1")
    error = models.TextField(blank=True, default="", help_text="why it failed, in one sentence")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_job"
        indexes = [
            # API list of a project's jobs, newest first (ids are time-ordered): WHERE project_id = %s ORDER BY id DESC
            models.Index(fields=["project", "-id"], name="job_by_project"),
            # Lists of transcriptions, newest first, which may be few of many jobs: WHERE name = 'transcription'
            models.Index(fields=["-id"], name="job_transcriptions", condition=models.Q(name="transcription")),
            # Orchestrator, each second, by project: WHERE status = 'pending' AND project_id = %s ORDER BY id
            models.Index(fields=["project", "id"], name="job_pending", condition=models.Q(status="pending")),
            # Reconciler: WHERE status IN ('running', 'cancelling') AND id > %s ORDER BY id
            models.Index(fields=["id"], name="job_live", condition=models.Q(status__in=["running", "cancelling"])),
            # Search for failed and cancelled jobs: WHERE status = 'failed' ORDER BY id DESC
            models.Index(
                fields=["-id"], name="job_ended_badly", condition=models.Q(status__in=["failed", "cancelled"])
            ),
            # Expiry of history: WHERE finished_at < %s ORDER BY finished_at
            models.Index(fields=["finished_at"], name="job_finished", condition=models.Q(finished_at__isnull=False)),
        ]
        constraints = [
            one_of("status", JobStatus, "job_status_known"),
            one_of("priority", Priority, "job_priority_known"),
            over_has_time(JOB_OVER, "job_over_has_time"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"


class IdempotencyKey(models.Model):
    """The key of a request: a second request with it returns the same job."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, db_index=False)  # unique(project, key)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64, help_text="SHA-256 of the request")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="idempotency_keys")
    created_at = models.DateTimeField()
    # Expiry: WHERE expires_at < %s
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "dalston_idempotency_key"
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="one_job_per_key")]

    def __str__(self) -> str:
        return self.key
