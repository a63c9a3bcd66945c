"""The audit trail: actions of operators, and the hash chain that shows a later change.

Triggers (migrations/audit_chain.sql) refuse to delete these rows, and to change them except in two ways: an action is
finished once, and the foreign key to a deleted user or token becomes null while the actor's name stays.
"""

from hashlib import sha256

from django.conf import settings
from django.db import models

from dalston_queue.models.accounts import ApiToken


class OperatorAction(models.Model):
    """One action: actor, action, target, reason, and the state before and after."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # A person by login, or a program by token. `actor` keeps the name when that row is deleted.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, blank=True)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=40, help_text="for instance `job.cancel`, `dead_letter.replay`, `stage.pause`")
    target = models.CharField(max_length=200, help_text="the id of the target")
    reason = models.TextField(blank=True, default="")
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True, help_text="empty: in progress, or its process died")

    class Meta:
        db_table = "dalston_operator_action"
        indexes = [
            # Actions on one target: WHERE target = %s ORDER BY id DESC
            models.Index(fields=["target", "-id"], name="action_by_target"),
            # The audit page's filters: WHERE actor = %s ORDER BY id DESC, and so on
            models.Index(fields=["actor", "-id"], name="action_by_actor"),
            models.Index(fields=["action", "-id"], name="action_by_kind"),
            models.Index(fields=["at"], name="action_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"


START = "0" * 64
"""The hash before the first link."""


class Fact(models.TextChoices):
    BEGUN = "begun", "begun"
    FINISHED = "finished", "finished"


class AuditEntry(models.Model):
    """A link of the chain: one fact about an action, hashed together with the link before.

    Written by a trigger in the transaction of the action, so no code can forget it; another trigger refuses changes and
    deletes. `manage.py verify_audit` checks the chain.
    """

    # Its position in the chain, without gaps, so that a missing link shows.
    id = models.BigIntegerField(primary_key=True)
    # The constraint below has the index.
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
    """The same computation as in the trigger: verifying must not rely on the code that wrote the link."""
    return sha256(f"{previous_hash}\n{position}\n{content}".encode()).hexdigest()
