"""What a recurring duty did when it last ran. One row per duty, so a duty that stopped running is seen by its age."""

from django.db import models


class Duty(models.Model):
    name = models.CharField(primary_key=True, max_length=40)
    every_s = models.FloatField(help_text="how often it should run; one that is older than twice this is late")
    last_run_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    repaired = models.PositiveIntegerField(help_text="what the last run put right or cleaned up")
    total_repaired = models.BigIntegerField(default=0)
    report = models.JSONField(default=dict, help_text="what the last run found, by kind")
    last_error = models.TextField(blank=True, default="", help_text="empty if the last run went well")
    failures = models.PositiveIntegerField(default=0, help_text="failed runs in a row")
    holder = models.CharField(max_length=200, help_text="the process that ran it")

    class Meta:
        db_table = "dalston_duty"
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name
