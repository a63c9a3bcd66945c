"""Which dead letters are meant, and how they are replayed: what /dlq takes."""

from __future__ import annotations

from typing import Any, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from dalston_queue.api.schemas.base import ABSENT, BodyIn, Id, Instant, Priority, either
from dalston_queue.api.schemas.reason import ReasonInBody
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.jobs.operator.replay_batches import MAX_LETTERS, MAX_RATE, MAX_UNDO_S

MAX_REPLAY = 1_000


class WantedIn(BodyIn):
    """Open dead letters that match everything given."""

    queue: str | None = Field(None, max_length=64)
    cause: str | None = Field(None, max_length=20)
    fingerprint: str | None = Field(None, max_length=16)
    task_type: str | None = Field(None, max_length=64)
    error: str | None = Field(None, max_length=200, description="Words of the error.")
    created_after: Instant | None = None
    created_before: Instant | None = None

    def filter(self, project_id: UUID | None) -> Filter:
        return Filter(
            queue=self.queue,
            cause=self.cause,
            fingerprint=self.fingerprint,
            task_type=self.task_type,
            error_contains=self.error,
            project_id=project_id,
            created_after=self.created_after,
            created_before=self.created_before,
        )


class ReplayIn(BodyIn):
    parameters: dict[str, Any] | None = Field(None, description="Instead of the task's own.")
    priority: Priority | None = None
    reason: ReasonInBody = ""


class ReplayManyIn(ReplayIn):
    model_config = ConfigDict(
        json_schema_extra=either(
            {"ids": {"type": "array"}, "filter": ABSENT}, {"filter": {"type": "object"}, "ids": ABSENT}
        )
    )

    ids: list[Id] | None = Field(None, min_length=1, max_length=MAX_REPLAY)
    filter: WantedIn | None = None
    dry_run: bool = Field(False, description="Only say how many of them are open.")
    limit: int = Field(
        MAX_LETTERS,
        ge=1,
        le=MAX_LETTERS,
        description=f"At most so many: of `ids` the first, of the filter's the oldest. Without an order {MAX_REPLAY} "
        "at a time.",
    )
    rate_per_minute: int | None = Field(None, ge=1, le=MAX_RATE, description="Makes it an order: so many a minute.")
    undo_seconds: float | None = Field(
        None, ge=0, le=MAX_UNDO_S, description="Makes it an order: until then it waits and can be undone."
    )

    @property
    def is_order(self) -> bool:
        return self.rate_per_minute is not None or self.undo_seconds is not None

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("either ids or filter is needed, and not both")
        return self
