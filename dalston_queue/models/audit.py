"""The audit trail: what operators did, and the hash chain that shows a later change.

The database itself keeps these rows as they were written (migrations/audit_chain.sql): none can be deleted, and only
two changes pass: an action is finished once, and a deleted user or token is forgotten here while its name stays.
"""

from hashlib import sha256

from django.conf import settings
from django.db import models

from dalston_queue.models.accounts import ApiToken


class OperatorAction(models.Model):
    """Who did what, to which thing, why, and how it was before and after."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # Who: a person by login, a program by token. `actor` keeps the name when the row it came from is gone.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, blank=True)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=40, help_text="for instance `job.cancel`, `dead_letter.replay`, `stage.pause`")
    target = models.CharField(max_length=200, help_text="the id of what it was done to")
    reason = models.TextField(blank=True, default="")
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    finished_at = models.DateTimeField(
        null=True, blank=True, help_text="empty: its process died in the middle, or it goes on right now"
    )

    class Meta:
        db_table = "dalston_operator_action"
        indexes = [
            # What was done to this thing: WHERE target = %s ORDER BY id DESC
            models.Index(fields=["target", "-id"], name="action_by_target"),
            # The audit page's filters: WHERE actor = %s ORDER BY id DESC, and so on
            models.Index(fields=["actor", "-id"], name="action_by_actor"),
            models.Index(fields=["action", "-id"], name="action_by_kind"),
            models.Index(fields=["at"], name="action_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"


START = "0" * 64
"""What stands before the first link."""


class Fact(models.TextChoices):
    BEGUN = "begun", "begun"
    FINISHED = "finished", "finished"


class AuditEntry(models.Model):
    """A link of the chain: one fact about an action, hashed together with the link before.

    Written by a trigger in the transaction of the action itself, so no code can forget it; never changed and never
    deleted, which another trigger refuses. `manage.py verify_audit` walks the chain.
    """

    # Its place in the chain: counted without gaps, so that a missing link shows.
    id = models.BigIntegerField(primary_key=True)
    # Which action it is about. The index is that of the constraint below.
    action = models.ForeignKey(
        OperatorAction, on_delete=models.DO_NOTHING, related_name="entries", db_constraint=False, db_index=False
    )
    fact = models.CharField(max_length=8, choices=Fact.choices)
    content = models.TextField(help_text="the fact as JSON, as it was hashed")
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        db_table = "dalston_audit_entry"
        constraints = [models.UniqueConstraint(fields=["action", "fact"], name="each_fact_once")]

    def __str__(self) -> str:
        return f"{self.id} {self.fact} {self.hash[:12]}"


def hash_of(previous_hash: str, position: int, content: str) -> str:
    """As the trigger does it, written again: who verifies must not ask the one who wrote."""
    return sha256(f"{previous_hash}\n{position}\n{content}".encode()).hexdigest()
