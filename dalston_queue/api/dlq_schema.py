"""Dead letters as the API shows and takes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from dalston_queue.broker.types import Priority
from dalston_queue.jobs.replay import Filter, Outcome, Replayed
from dalston_queue.models import DeadLetter

MAX_REPLAY = 1_000


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


class WantedIn(Schema):
    """Open dead letters that match everything given."""

    model_config = ConfigDict(extra="forbid")

    queue: str | None = Field(None, max_length=64)
    cause: str | None = Field(None, max_length=20)
    fingerprint: str | None = Field(None, max_length=16)
    task_type: str | None = Field(None, max_length=64)
    error: str | None = Field(None, max_length=200, description="Words of the error.")
    created_before: AwareDatetime | None = None

    def filter(self, project_id: UUID | None) -> Filter:
        return Filter(
            queue=self.queue,
            cause=self.cause,
            fingerprint=self.fingerprint,
            task_type=self.task_type,
            error_contains=self.error,
            project_id=project_id,
            created_before=self.created_before,
        )


class ReplayIn(Schema):
    model_config = ConfigDict(extra="forbid")

    parameters: dict[str, Any] | None = Field(None, description="Instead of the task's own.")
    priority: Priority | None = None
    reason: str = Field("", max_length=500, description="Why; kept in the audit trail.")


class ReplayManyIn(ReplayIn):
    ids: list[UUID] | None = Field(None, min_length=1, max_length=MAX_REPLAY)
    filter: WantedIn | None = None
    dry_run: bool = Field(False, description="Only say how many match.")
    limit: int = Field(MAX_REPLAY, ge=1, le=MAX_REPLAY, description="At most so many of the filter's, oldest first.")

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("either ids or filter is needed, and not both")
        return self


class ReplayedOut(Schema):
    dead_letter_id: UUID
    outcome: Outcome
    task_id: UUID | None
    attempt: int | None = Field(description="The attempt that the replay made.")


class ReplayManyOut(Schema):
    matched: int
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
