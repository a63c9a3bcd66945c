"""A client's promise that two requests are the same one. Lives in Postgres, so it survives the loss of Redis."""

from django.db import models

from dalston_queue.models.job import Job
from dalston_queue.models.project import Project


class IdempotencyKey(models.Model):
    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, db_index=False)  # unique(project, key)
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64, help_text="SHA-256 of what was asked for")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="idempotency_keys")
    created_at = models.DateTimeField()
    # Expiry: WHERE expires_at < %s
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "dalston_idempotency_key"
        constraints = [models.UniqueConstraint(fields=["project", "key"], name="one_job_per_key")]

    def __str__(self) -> str:
        return self.key
