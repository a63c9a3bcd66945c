"""A login that was tried and has not succeeded: what the throttle counts. Kept for a day."""

from django.db import models


class LoginAttempt(models.Model):
    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # A digest: people type passwords into the wrong field.
    account = models.CharField(max_length=64)
    address = models.CharField(max_length=64)

    class Meta:
        db_table = "dalston_login_attempt"
        indexes = [
            # The throttle: WHERE account = %s AND at > %s, WHERE address = %s AND at > %s
            models.Index(fields=["account", "at"], name="login_by_account"),
            models.Index(fields=["address", "at"], name="login_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.address} {self.at:%H:%M:%S}"
