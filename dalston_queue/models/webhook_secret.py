"""What a project's webhooks are signed with. Shown once, when it is made; kept as it is, because signing needs it."""

import secrets
from datetime import datetime
from typing import Self

from django.db import models

from dalston_queue.models.project import Project

PREFIX = "whsec_"


class WebhookSecret(models.Model):
    project = models.OneToOneField(Project, on_delete=models.CASCADE, primary_key=True, related_name="webhook_secret")
    text = models.CharField(max_length=80, editable=False)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_webhook_secret"

    def __str__(self) -> str:
        return f"webhook secret of {self.project}"

    @classmethod
    def issue(cls, project: Project, now: datetime) -> Self:
        """A new one; the one before is void from now on."""
        text = PREFIX + secrets.token_urlsafe(32)
        return cls.objects.update_or_create(project=project, defaults={"text": text, "created_at": now})[0]
