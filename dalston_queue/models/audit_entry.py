"""A link of the audit chain: one fact about an operator's act, hashed together with the link before.

Written by a trigger (migration 0008) in the transaction of the act itself, so no code can forget it; never changed and
never deleted, which another trigger refuses. `manage.py verify_audit` walks the chain.
"""

from hashlib import sha256

from django.db import models

from dalston_queue.models.operator_action import OperatorAction

START = "0" * 64
"""What stands before the first link."""


class Fact(models.TextChoices):
    BEGUN = "begun", "begun"
    FINISHED = "finished", "finished"


class AuditEntry(models.Model):
    # Its place in the chain: counted without gaps, so that a missing link shows.
    id = models.BigIntegerField(primary_key=True)
    # Which act it is about. The index is that of the constraint below.
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
