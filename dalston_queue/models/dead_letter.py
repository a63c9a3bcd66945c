"""Dead letters: tasks whose budgets are used up, and bytes that could not be read. They wait for an operator."""

from django.db import models

from dalston_queue.ids import uuid7
from dalston_queue.models.accounts import Project
from dalston_queue.models.task import Task

# Neither replayed nor discarded.
OPEN = models.Q(replayed_at__isnull=True, discarded_at__isnull=True)


class DeadLetter(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # Null for a malformed entry or event: those belong to no task.
    task = models.ForeignKey(Task, on_delete=models.CASCADE, null=True, blank=True, related_name="dead_letters")
    queue = models.CharField(max_length=41)
    task_type = models.CharField(max_length=64, blank=True, default="")
    # Of its task, and null without one. Both columns are here so that patterns are counted without a join.
    project = models.ForeignKey(
        Project,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    engine_id = models.CharField(
        max_length=200, blank=True, db_default="", default="", help_text="that ran it last; empty if none did"
    )
    attempt = models.PositiveIntegerField(default=0, help_text="the attempt that died")
    deliveries = models.PositiveSmallIntegerField(default=0)
    cause = models.CharField(max_length=20)
    error = models.TextField(blank=True, default="")
    error_type = models.CharField(max_length=200, blank=True, default="")
    # A default of the database: rows from before the column count as retriable.
    retriable = models.BooleanField(db_default=True, help_text="another attempt may end differently")
    traceback = models.TextField(blank=True, default="")
    fingerprint = models.CharField(max_length=16, help_text="equal for errors of one kind")
    evidence = models.JSONField(null=True, blank=True, help_text="from the supervisor: exit code, signal, log tail")
    raw = models.JSONField(null=True, blank=True, help_text="the fields of an entry that could not be read")
    created_at = models.DateTimeField()
    replayed_at = models.DateTimeField(null=True, blank=True)
    replayed_attempt = models.PositiveIntegerField(null=True, blank=True, help_text="the attempt the replay made")
    discarded_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_dead_letter"
        indexes = [
            # The open ones of a group, newest first, and the groups themselves:
            # WHERE replayed_at IS NULL AND discarded_at IS NULL AND fingerprint = %s ORDER BY created_at DESC, id DESC
            models.Index(fields=["fingerprint", "-created_at", "-id"], name="dead_letter_group", condition=OPEN),
            # All open ones, newest first: the same without a fingerprint
            models.Index(fields=["-created_at", "-id"], name="dead_letter_newest", condition=OPEN),
            # The open ones of a project, newest first: the patterns that its token sees
            models.Index(fields=["project", "-created_at", "-id"], name="dead_letter_project", condition=OPEN),
            # Expiry: WHERE created_at < %s ORDER BY created_at
            models.Index(fields=["created_at"], name="dead_letter_by_age"),
        ]
        constraints = [
            # One open dead letter per task, so that a replay knows which one it closes.
            models.UniqueConstraint(
                fields=["task"],
                name="one_open_dead_letter",
                condition=OPEN,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cause} in {self.queue}: {self.error[:80]}"
