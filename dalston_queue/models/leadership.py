"""The term of each leading role. Redis holds the lease; the number that only grows comes from here."""

from django.db import models


class Leadership(models.Model):
    role = models.CharField(primary_key=True, max_length=20)
    term = models.BigIntegerField()
    holder = models.CharField(max_length=200, help_text="who last took the lease")
    since = models.DateTimeField()

    class Meta:
        db_table = "dalston_leadership"

    def __str__(self) -> str:
        return f"{self.role}: term {self.term}, {self.holder}"
