"""Dead letters and replay batches in the API: the bodies of replays and filters, and both as they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, Strict, model_validator

from dalston_queue.api.schemas.base import ABSENT, BodyIn, Id, Instant, PriorityIn, ReasonInBody, either, some_of
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.operator.replay import Filter, Outcome
from dalston_queue.jobs.operator.replay_batches import MAX_DEAD_LETTERS, MAX_RATE, MAX_UNDO_S
from dalston_queue.jobs.queries.dead_letters import EXAMINED, SHOWN, Patterns
from dalston_queue.models import DeadLetter, ReplayBatch
from dalston_queue.models.replay_batch import BatchState

MAX_REPLAY = 1_000


class WantedIn(BodyIn):
    """A filter of open dead letters: all of its fields must match."""

    queue: str | None = Field(None, max_length=64)
    cause: str | None = Field(None, max_length=20)
    fingerprint: str | None = Field(None, max_length=16)
    task_type: str | None = Field(None, max_length=64)
    error: str | None = Field(None, max_length=200, description="Words of the error.")
    retriable: bool | None = Field(None, description="Another attempt may end differently.")
    project: str | None = Field(None, max_length=80, description="Its name.")
    node: str | None = Field(None, max_length=128, description="The node whose engine ran it last.")
    engine: str | None = Field(None, max_length=200, description="A slot, as in `patterns`, or one process of it.")
    created_after: Instant | None = None
    created_before: Instant | None = None

    def filter(self, project_id: UUID | None) -> Filter:
        return Filter(
            queue=self.queue,
            cause=self.cause,
            fingerprint=self.fingerprint,
            task_type=self.task_type,
            error_contains=self.error,
            retriable=self.retriable,
            project=self.project,
            node=self.node,
            engine=self.engine,
            project_id=project_id,
            created_after=self.created_after,
            created_before=self.created_before,
        )


class WantedQuery(WantedIn):
    """The same as query parameters, which are all text."""

    retriable: Annotated[bool | None, Strict(False)] = Field(None, description="Another attempt may end differently.")


_ONE_PRIORITY = some_of({"priority": ABSENT}, {"new_priority": ABSENT})


class ReplayIn(BodyIn):
    model_config = ConfigDict(json_schema_extra=_ONE_PRIORITY)

    parameters: dict[str, Any] | None = Field(None, description="Instead of the task's own.")
    priority: PriorityIn | None = None
    new_priority: PriorityIn | None = Field(None, description="The same as `priority`.")
    reset_retry_count: bool = Field(True, description="False: with the retries that it has left. Not for a batch.")
    reason: ReasonInBody = ""

    @property
    def wanted_priority(self) -> Priority | None:
        return self.priority or self.new_priority

    @model_validator(mode="after")
    def _has_one_priority(self) -> Self:
        if self.priority and self.new_priority:
            raise ValueError("priority and new_priority are the same field; send one of them")
        return self


_NO_BATCH: dict[str, Any] = {"properties": {"rate_per_minute": ABSENT, "undo_seconds": ABSENT}}


class ReplayManyIn(ReplayIn):
    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                either({"ids": {"type": "array"}, "filter": ABSENT}, {"filter": {"type": "object"}, "ids": ABSENT}),
                _ONE_PRIORITY,
                {"anyOf": [_NO_BATCH, {"properties": {"reset_retry_count": {"const": True}}}]},
            ]
        }
    )

    ids: list[Id] | None = Field(None, min_length=1, max_length=MAX_REPLAY)
    filter: WantedIn | None = None
    dry_run: bool = Field(False, description="Only count the open ones.")
    limit: int = Field(
        MAX_DEAD_LETTERS,
        ge=1,
        le=MAX_DEAD_LETTERS,
        description=f"How many at most: the first of `ids`, or the oldest that match. {MAX_REPLAY} without a batch.",
    )
    rate_per_minute: int | None = Field(None, ge=1, le=MAX_RATE, description="Makes it a replay batch at this rate.")
    undo_seconds: float | None = Field(
        None, ge=0, le=MAX_UNDO_S, description="Makes it a replay batch that waits so long and can be undone."
    )

    @property
    def is_batch(self) -> bool:
        return self.rate_per_minute is not None or self.undo_seconds is not None

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("either ids or filter is needed, and not both")
        if self.is_batch and not self.reset_retry_count:
            raise ValueError("a replay batch resets the retries: leave reset_retry_count out")
        return self


class DeadLetterOut(Schema):
    dead_letter_id: UUID
    task_id: UUID | None = Field(description="Null for an entry that could not be decoded.")
    queue: str
    task_type: str
    cause: str
    error: str
    error_type: str
    retriable: bool = Field(description="Another attempt may end differently; false for a rejected one.")
    fingerprint: str = Field(description="Equal for similar errors.")
    attempt: int
    deliveries: int
    engine_id: str = Field(description="The engine that ran it last; empty if none did.")
    evidence: Any = Field(None, description="From the supervisor: exit code, signal, last log lines.")
    traceback: str | None = Field(None, description="Only when one is read.")
    raw: dict[str, Any] | None = Field(
        None, description="Only when one is read: the fields of an entry that could not be read; bytes as `base64`."
    )
    created_at: datetime
    replayed_at: datetime | None
    discarded_at: datetime | None


class GroupOut(Schema):
    fingerprint: str
    count: int
    queue: str
    cause: str
    error: str = Field(description="Of one dead letter of the group.")
    first_at: datetime
    last_at: datetime


class PatternOut(Schema):
    value: str
    count: int
    retriable: int
    above: bool = Field(description="Of a cause: more than DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE.")
    filter: dict[str, str] = Field(description="As `filter` of `dead_letters:replay`, and as a query of the list.")


class InHourOut(Schema):
    at: datetime
    count: int
    retriable: int


class PatternsOut(Schema):
    since: datetime
    count: int = Field(description="Open dead letters of the last day that match.")
    retriable: int = Field(description="Those of them that may pass if they are replayed.")
    above: bool = Field(description="`retriable` is more than DALSTON_ALERT_DEAD_LETTERS_RETRIABLE.")
    is_whole: bool = Field(description=f"False: only the newest {EXAMINED} of the day were counted.")
    causes: list[PatternOut] = Field(description=f"The {SHOWN} most frequent, as in the other lists.")
    queues: list[PatternOut]
    nodes: list[PatternOut]
    engines: list[PatternOut] = Field(description="By slot: a node, an engine and its number.")
    projects: list[PatternOut]
    hours: list[InHourOut] = Field(description="Oldest first.")


def patterns_out(found: Patterns) -> PatternsOut:
    def listed(kind: str) -> list[PatternOut]:
        return [
            PatternOut(
                value=each.value,
                count=each.count,
                retriable=each.retriable,
                above=each.is_many,
                filter={kind: each.value},
            )
            for each in found.by[kind]
        ]

    return PatternsOut(
        since=found.since,
        count=found.count,
        retriable=found.retriable,
        above=found.are_many_retriable,
        is_whole=found.is_whole,
        causes=listed("cause"),
        queues=listed("queue"),
        nodes=listed("node"),
        engines=listed("engine"),
        projects=listed("project"),
        hours=[InHourOut(at=hour.at, count=hour.count, retriable=hour.retriable) for hour in found.hours],
    )


class ReplayedOut(Schema):
    dead_letter_id: UUID
    outcome: Outcome
    task_id: UUID | None
    attempt: int | None = Field(description="The attempt that the replay starts.")


class ReplayManyOut(Schema):
    matched: int = Field(description="Open dead letters that match; in a dry run at most as many as one call replays.")
    replayed: int
    items: list[ReplayedOut]


class DiscardOut(Schema):
    dead_letter_id: UUID
    discarded: bool = Field(description="False: the dead letter was closed before.")


def dead_letter_out(letter: DeadLetter, *, whole: bool = False) -> DeadLetterOut:
    left_out = {"dead_letter_id"} if whole else {"dead_letter_id", "traceback", "raw"}
    same = {name: getattr(letter, name) for name in DeadLetterOut.model_fields if name not in left_out}
    return DeadLetterOut(dead_letter_id=letter.id, **same)


class ReplayBatchOut(Schema):
    replay_batch_id: UUID
    state: BatchState
    actor: str = Field(description="The user or token that made it.")
    reason: str
    filter: dict[str, Any] | None = Field(description="Null if the dead letters were named by id.")
    parameters: dict[str, Any] | None
    priority: Priority | None
    rate_per_minute: int | None
    matched: int = Field(description="Dead letters of the batch: those that were open when it was made.")
    handled: int = Field(description="The sum of replayed, already and refused.")
    replayed: int
    already: int = Field(description="Replayed earlier: all dead letters of a job are replayed together.")
    refused: int
    error: str | None = Field(description="Why the batch was stopped, if not by an operator.")
    ended_by: str | None = Field(description="The user or token that undid or stopped it.")
    created_at: datetime
    starts_at: datetime = Field(description="Until then the batch waits and can be undone.")
    started_at: datetime | None
    finished_at: datetime | None
    already_open: bool = Field(description="This open batch does the same already; no second one was made.")


class WithdrawnOut(Schema):
    outcome: Literal["undone", "stopped"] = Field(description="undone: nothing was replayed.")
    replay_batch: ReplayBatchOut


_TEXTS = ("priority", "error", "ended_by")  # empty: none


def replay_batch_out(batch: ReplayBatch) -> ReplayBatchOut:
    names = [name for name in ReplayBatchOut.model_fields if name not in {"replay_batch_id", *_TEXTS}]
    same: dict[str, Any] = {name: getattr(batch, name) for name in names}
    same |= {name: getattr(batch, name) or None for name in _TEXTS}
    return ReplayBatchOut(replay_batch_id=batch.id, **same)
