"""One number, or a few, of one thing at one minute: what the sparklines are drawn from. Kept for a day."""

from django.db import models


class Sample(models.Model):
    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=20, help_text="`queue`, `lane`, `letters`, `gpu`")
    name = models.CharField(max_length=300, help_text="which one of its kind")
    at = models.DateTimeField(help_text="a whole minute")
    numbers = models.JSONField(help_text="by name; one that was not known is left out")

    class Meta:
        db_table = "dalston_sample"
        constraints = [
            # A minute is sampled once, whoever leads. Its index also serves the page, WHERE kind = %s AND at > %s.
            models.UniqueConstraint(fields=["kind", "at", "name"], name="one_sample_a_minute")
        ]
        # Trimming: WHERE at < %s
        indexes = [models.Index(fields=["at"], name="sample_by_age")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.at:%H:%M}"
