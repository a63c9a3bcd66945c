"""Dead letters as the API shows them, and what became of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from dalston_queue.jobs.operator.replay import Outcome, Replayed
from dalston_queue.models import DeadLetter


class DeadLetterOut(Schema):
    dead_letter_id: UUID
    task_id: UUID | None = Field(description="Null for bytes that nobody could read.")
    queue: str
    task_type: str
    cause: str
    error: str
    error_type: str
    fingerprint: str = Field(description="Equal for errors that look alike.")
    attempt: int
    deliveries: int
    evidence: Any = Field(None, description="What the supervisor saw: exit code, signal, last log lines.")
    created_at: datetime
    replayed_at: datetime | None
    discarded_at: datetime | None


class GroupOut(Schema):
    fingerprint: str
    count: int
    queue: str
    cause: str
    error: str = Field(description="Of one of them.")
    first_at: datetime
    last_at: datetime


class ReplayedOut(Schema):
    dead_letter_id: UUID
    outcome: Outcome
    task_id: UUID | None
    attempt: int | None = Field(description="The attempt that the replay made.")


class ReplayManyOut(Schema):
    matched: int = Field(description="Open ones of these; of a dry run at most as many as one call takes back.")
    replayed: int
    items: list[ReplayedOut]


class DiscardOut(Schema):
    dead_letter_id: UUID
    discarded: bool = Field(description="False: it was closed before.")


def dead_letter_out(letter: DeadLetter) -> DeadLetterOut:
    same = {name: getattr(letter, name) for name in DeadLetterOut.model_fields if name != "dead_letter_id"}
    return DeadLetterOut(dead_letter_id=letter.id, **same)


def replayed_out(done: Replayed) -> ReplayedOut:
    return ReplayedOut(dead_letter_id=done.letter_id, outcome=done.outcome, task_id=done.task_id, attempt=done.attempt)
