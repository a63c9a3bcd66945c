"""Replay batches: dead letters to replay later, at a rate, or both. Can be undone until the first one is replayed."""

from enum import StrEnum

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.ids import uuid7
from dalston_queue.models.accounts import ApiToken
from dalston_queue.models.fields import choices, one_of, over_has_time


class BatchState(StrEnum):
    WAITING = "waiting"  # nothing was replayed; an orchestrator starts it at `next_at`, an operator may undo it
    RUNNING = "running"  # an orchestrator replays the next dead letters at `next_at`; an operator may stop the rest
    DONE = "done"
    UNDONE = "undone"  # by an operator, before anything was replayed
    STOPPED = "stopped"  # by an operator, or because of `error`; replayed tasks stay replayed


LIVE = ("waiting", "running")
OVER = ("done", "undone", "stopped")


class ReplayBatch(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # As in the audit trail: `actor` keeps the name when the user or token is deleted.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, blank=True)
    actor = models.CharField(max_length=200)
    reason = models.TextField(blank=True, default="")
    # The dead letters that matched when the batch was made, not later ones.
    filter = models.JSONField(null=True, blank=True, help_text="null if the dead letters were selected by id")
    dead_letter_ids = ArrayField(
        models.UUIDField(), help_text="the dead letters, in the order in which they are replayed"
    )
    parameters = models.JSONField(null=True, blank=True, help_text="instead of the tasks' own")
    priority = models.CharField(
        max_length=6, choices=choices(Priority), blank=True, default="", help_text="empty: unchanged"
    )
    rate_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="null: no limit")
    state = models.CharField(max_length=7, choices=choices(BatchState), default=BatchState.WAITING.value)
    matched = models.PositiveIntegerField(help_text="number of dead letters")
    handled = models.PositiveIntegerField(default=0, help_text="dead letters processed so far")
    replayed = models.PositiveIntegerField(default=0)
    already = models.PositiveIntegerField(default=0, help_text="replayed earlier, together with another of their job")
    refused = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, default="", help_text="why it was stopped, if no operator did")
    ended_by = models.CharField(max_length=200, blank=True, default="", help_text="the actor that undid or stopped it")
    created_at = models.DateTimeField()
    starts_at = models.DateTimeField(help_text="until then it can be undone")
    next_at = models.DateTimeField(help_text="when its next dead letters are due")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    already_open = False
    """Not stored: the request that asked for this batch found it open."""

    class Meta:
        db_table = "dalston_replay_batch"
        indexes = [
            # Orchestrator, each second: WHERE state IN ('waiting', 'running') AND next_at <= %s ORDER BY next_at
            models.Index(fields=["next_at"], name="replay_batch_due", condition=models.Q(state__in=LIVE)),
        ]
        constraints = [
            one_of("state", [*LIVE, *OVER], "replay_batch_state_known"),
            one_of("priority", ["", *(priority.value for priority in Priority)], "replay_batch_priority_known"),
            models.CheckConstraint(condition=models.Q(rate_per_minute__gt=0), name="replay_batch_rate"),
            over_has_time(OVER, "replay_batch_over_has_time", "state"),
        ]

    def __str__(self) -> str:
        return f"replay of {self.matched} dead letters, {self.state}"
