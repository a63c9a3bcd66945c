"""Alerts that stand or stood: a row for each time that the condition of an alert held."""

from django.db import models


def slug_of(name: str) -> str:
    """Of an alert's page and runbook: DalstonNoLeader is no-leader."""
    text = name.removeprefix("Dalston")
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in text).lstrip("-")


class AlertState(models.Model):
    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=60, help_text="its name in the table of alerts")
    subject = models.CharField(max_length=200, blank=True, default="", help_text="a queue, a duty, a node; empty: all")
    severity = models.CharField(max_length=10)
    value = models.FloatField()
    text = models.TextField(help_text="its sentence, with the latest value")
    since = models.DateTimeField(help_text="when its condition began to hold")
    held_at = models.DateTimeField(help_text="when it last held")
    fired_at = models.DateTimeField(null=True, blank=True, help_text="empty: it has not held long enough yet")
    ended_at = models.DateTimeField(null=True, blank=True)
    # Of each channel: what it was notified of last (nothing, `firing` or `ended`), failures in a row, and when it is
    # notified again, or until when it is being notified. Mail has the columns that both shared before 0.2.
    mailed = models.CharField(max_length=6, blank=True, default="")
    mail_failures = models.PositiveSmallIntegerField(default=0, db_column="failures")
    mail_next_at = models.DateTimeField(null=True, blank=True, db_column="next_try_at")
    called = models.CharField(max_length=6, blank=True, default="")
    call_failures = models.PositiveSmallIntegerField(default=0, db_default=0)
    call_next_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dalston_alert"
        constraints = [
            models.UniqueConstraint(
                fields=["name", "subject"], name="one_standing_alert", condition=models.Q(ended_at__isnull=True)
            )
        ]
        indexes = [
            # What ended last, and expiry: ORDER BY ended_at DESC, WHERE ended_at < %s
            models.Index(fields=["ended_at"], name="alert_ended", condition=models.Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.subject}".strip()
