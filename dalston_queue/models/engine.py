"""An engine process as last seen in Redis. One row per process: its id contains node, name, slot and boot."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Engine(models.Model):
    id = models.CharField(primary_key=True, max_length=200)
    # No foreign key: an engine may run alone, without a supervisor and so without a node.
    node_id = models.CharField(max_length=100, db_index=True)  # WHERE node_id = %s
    state = models.CharField(max_length=20)
    queues = ArrayField(models.CharField(max_length=41), default=list)
    capabilities = ArrayField(models.CharField(max_length=41), default=list)
    capacity = models.PositiveSmallIntegerField(default=1)
    facts = models.JSONField(default=dict, help_text="version, restarts, last exit, memory: what its beat says")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_engine"

    def __str__(self) -> str:
        return self.id
