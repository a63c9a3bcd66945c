"""A queue that an operator has paused. Redis holds the flag engines see; this row puts it back when Redis forgets."""

from django.db import models


class StagePause(models.Model):
    queue = models.CharField(primary_key=True, max_length=41)
    reason = models.TextField(blank=True, default="")
    actor = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        db_table = "dalston_stage_pause"

    def __str__(self) -> str:
        return self.queue
