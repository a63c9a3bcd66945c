"""A GPU node as last seen in Redis, kept here so that its history outlives its heartbeat. Housekeeping mirrors it."""

from django.db import models


class Node(models.Model):
    id = models.CharField(primary_key=True, max_length=100)
    state = models.CharField(max_length=20)
    facts = models.JSONField(default=dict, help_text="what the supervisor said about itself: version, labels, GPUs")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_node"

    def __str__(self) -> str:
        return self.id
