"""GPU nodes and engine processes as last seen in Redis: a history that outlives their heartbeats.

Housekeeping mirrors them from the registry once a minute.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Node(models.Model):
    id = models.CharField(primary_key=True, max_length=100)
    state = models.CharField(max_length=20)
    facts = models.JSONField(default=dict, help_text="what the supervisor reports about itself: version, labels, GPUs")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_node"

    def __str__(self) -> str:
        return self.id


class Engine(models.Model):
    """One row per process: its id contains node, name, slot and boot."""

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
