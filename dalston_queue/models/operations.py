"""Operations: nodes, engines, paused queues, duties, leaders and samples.

Housekeeping mirrors nodes and engines from the registry once a minute: a history that outlives their heartbeats.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Node(models.Model):
    id = models.CharField(primary_key=True, max_length=100)
    state = models.CharField(max_length=20)
    facts = models.JSONField(default=dict, help_text="from its heartbeat: version, labels, GPUs")
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
    facts = models.JSONField(default=dict, help_text="from its heartbeat: version, restarts, last exit, memory")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "dalston_engine"

    def __str__(self) -> str:
        return self.id


class StagePause(models.Model):
    """A paused queue. Redis holds the flag that engines see; this row restores it when Redis loses it."""

    queue = models.CharField(primary_key=True, max_length=41)
    reason = models.TextField(blank=True, default="")
    actor = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        db_table = "dalston_stage_pause"

    def __str__(self) -> str:
        return self.queue


class Duty(models.Model):
    """The last run of a recurring duty. Its age shows a duty that stopped running."""

    name = models.CharField(primary_key=True, max_length=40)
    every_s = models.FloatField(help_text="interval; a duty is late when its last run is older than twice this")
    last_run_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    repaired = models.PositiveIntegerField(help_text="repairs of the last run")
    total_repaired = models.BigIntegerField(default=0)
    report = models.JSONField(default=dict, help_text="findings of the last run, by kind")
    last_error = models.TextField(blank=True, default="", help_text="empty if the last run went well")
    failures = models.PositiveIntegerField(default=0, help_text="failed runs in a row")
    holder = models.CharField(max_length=200, help_text="the process that ran it")

    class Meta:
        db_table = "dalston_duty"
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name


class Leadership(models.Model):
    """The term of each leading role, which only grows. Redis holds the lease."""

    role = models.CharField(primary_key=True, max_length=20)
    term = models.BigIntegerField()
    holder = models.CharField(max_length=200, help_text="the process that last acquired the lease")
    since = models.DateTimeField()

    class Meta:
        db_table = "dalston_leadership"

    def __str__(self) -> str:
        return f"{self.role}: term {self.term}, {self.holder}"


class Sample(models.Model):
    """Numbers of a queue, a lane, the dead letters or a GPU at one minute, for sparklines. Kept for a day."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=20, help_text="`queue`, `lane`, `dead_letters`, `gpu`")
    name = models.CharField(max_length=300, help_text="name of the queue, lane or GPU")
    at = models.DateTimeField(help_text="a whole minute")
    numbers = models.JSONField(help_text="by name; unknown numbers are left out")

    class Meta:
        db_table = "dalston_sample"
        constraints = [
            # Each minute is sampled once. Its index also serves the page, WHERE kind = %s AND at > %s.
            models.UniqueConstraint(fields=["kind", "at", "name"], name="one_sample_a_minute")
        ]
        # Trimming: WHERE at < %s
        indexes = [models.Index(fields=["at"], name="sample_by_age")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.at:%H:%M}"
