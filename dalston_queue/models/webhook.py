"""Webhook deliveries, and the secret that signs those of a project.

A delivery is one call to a job's callback URL: due, delivered or given up. The statement that ends the job makes it.
"""

import secrets
from datetime import datetime
from enum import StrEnum
from typing import Self
from uuid import UUID, uuid4

from django.db import models

from dalston_queue.jobs.lifecycle.states import JOB_OVER, JobStatus
from dalston_queue.models.accounts import Project
from dalston_queue.models.fields import choices, one_of
from dalston_queue.models.job import Job


class DeliveryState(StrEnum):
    PENDING = "pending"  # to be sent at `next_at`; an orchestrator moves it on
    DELIVERED = "delivered"  # the receiver answered 2xx; sending it again makes it pending
    GAVE_UP = "gave_up"  # every attempt failed; sending it again makes it pending


UNKNOWN = UUID(int=0)


class WebhookDelivery(models.Model):
    # The receiver gets it, and recognises a repetition by it.
    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="webhooks", db_index=False)
    # Of the job: projects share the senders. Unknown of one that an older release made.
    project_id = models.UUIDField(default=UNKNOWN, db_default=UNKNOWN, editable=False)
    url = models.TextField()
    origin = models.TextField(help_text="scheme, host and port: the limit of requests at a time counts by it")
    # Of the job when it ended: a replay may run it again before this is sent.
    status = models.CharField(max_length=12, choices=choices(JobStatus))
    error = models.TextField(blank=True, default="", help_text="why the job failed")
    finished_at = models.DateTimeField()
    state = models.CharField(max_length=12, choices=choices(DeliveryState), default=DeliveryState.PENDING.value)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(help_text="when it is due; while it is being sent, when it is due again")
    sending_until = models.DateTimeField(null=True, blank=True, help_text="an orchestrator is sending it")
    last_code = models.PositiveSmallIntegerField(null=True, blank=True, help_text="the receiver's last HTTP status")
    last_error = models.TextField(blank=True, default="")
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_webhook_delivery"
        verbose_name_plural = "webhook deliveries"
        indexes = [
            # Orchestrator, each second, of each project: WHERE state = 'pending' AND next_at <= %s ORDER BY next_at
            models.Index(
                fields=["project_id", "next_at"], name="webhook_due_by_project", condition=models.Q(state="pending")
            ),
            # When those are all of busy receivers: the first of each other receiver, by a range of (origin, next_at)
            models.Index(
                fields=["project_id", "origin", "next_at"],
                name="webhook_due_by_receiver",
                condition=models.Q(state="pending"),
            ),
            # Deliveries being sent to each receiver: WHERE sending_until > %s GROUP BY origin
            models.Index(
                fields=["origin", "sending_until"],
                name="webhook_being_sent",
                condition=models.Q(sending_until__isnull=False),
            ),
            # Of one job, and expiry of history: WHERE job_id = %s
            models.Index(fields=["job", "finished_at"], name="webhook_by_job"),
        ]
        constraints = [
            one_of("state", DeliveryState, "webhook_state_known"),
            one_of("status", JOB_OVER, "webhook_status_over"),
        ]

    def __str__(self) -> str:
        return f"{self.url} {self.id}"

    def is_due_afresh(self, now: datetime) -> bool:
        """True if a sender takes it next, with all its attempts: sending it again would change nothing."""
        idle = self.sending_until is None or self.sending_until <= now
        return self.state == DeliveryState.PENDING and not self.attempts and self.next_at <= now and idle


PREFIX = "whsec_"


class WebhookSecret(models.Model):
    """Shown once, when it is made. Kept in plain text, because signing needs it."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, primary_key=True, related_name="webhook_secret")
    text = models.CharField(max_length=80, editable=False)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_webhook_secret"

    def __str__(self) -> str:
        return f"webhook secret of {self.project}"

    @classmethod
    def issue(cls, project: Project, now: datetime) -> Self:
        """A new secret; the one before is void from now on."""
        text = PREFIX + secrets.token_urlsafe(32)
        return cls.objects.update_or_create(project=project, defaults={"text": text, "created_at": now})[0]
