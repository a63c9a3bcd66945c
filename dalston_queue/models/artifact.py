"""References of jobs to artifacts: which files of the store are needed, and by which job.

The rows decide what is kept: a file without a row of a job is deleted after a time. They are written by the server
alone, from uploads and from accepted results.
"""

from enum import StrEnum

from django.db import models

from dalston_queue.models.accounts import Project
from dalston_queue.models.fields import choices, one_of
from dalston_queue.models.job import Job


class ArtifactKind(StrEnum):
    UPLOAD = "upload"  # a client sent it
    RESULT = "result"  # the result of a task of the job names it


class JobArtifact(models.Model):
    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Null once the job is deleted: housekeeping then deletes the file, if no other job needs it, and this row.
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, related_name="artifacts", db_index=False)
    ref = models.CharField(max_length=71, help_text="sha256: and 64 hex digits")
    size = models.BigIntegerField(null=True, help_text="in bytes; null: not known yet; 0: the file is not in the store")
    counted = models.BooleanField(default=False, db_default=False, help_text="in stored_bytes of its project")
    name = models.CharField(max_length=255, blank=True, default="", help_text="as the client named it")
    kind = models.CharField(max_length=6, choices=choices(ArtifactKind))

    class Meta:
        db_table = "dalston_job_artifact"
        indexes = [
            # Which jobs need a file: WHERE ref = ANY(%s)
            models.Index(fields=["ref"], name="artifact_by_ref"),
            # Housekeeping, each minute: WHERE job_id IS NULL ORDER BY id
            models.Index(fields=["id"], name="artifact_released", condition=models.Q(job__isnull=True)),
            # Housekeeping, each minute: WHERE NOT counted ORDER BY project_id, ref. And before an upload
            models.Index(
                fields=["project", "ref"],
                name="artifact_uncounted",
                include=["size"],
                condition=models.Q(counted=False),
            ),
        ]
        constraints = [
            # Also of one job, and expiry: WHERE job_id = ANY(%s)
            models.UniqueConstraint(fields=["job", "ref"], name="one_artifact_per_job"),
            one_of("kind", ArtifactKind, "artifact_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.ref} of {self.job_id}"
