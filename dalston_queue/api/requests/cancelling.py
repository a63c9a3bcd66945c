"""Cancels a task or a job for somebody: asks, writes it down, and says what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils import timezone
from ninja import Schema
from pydantic import Field

from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code, not_found
from dalston_queue.audit.record import audited
from dalston_queue.jobs.operator.cancel import Cancellation, cancel_message


class CancelledTaskOut(Schema):
    task_id: UUID
    status: str = Field(
        description="`cancelled`, or still `queued` or `running` until its engine, or Redis, has answered; or how else "
        "it ended in this moment, if the rest of its job was stopped."
    )
    was_running: bool = Field(description="An engine had it when this request came.")
    engine_told: bool = Field(
        description="That engine was told to stop. If it was running and this is false: the engine is told as soon as "
        "Redis answers, or the task has just ended."
    )


class CancelledJobOut(Schema):
    job_id: UUID
    status: str = Field(
        description="`cancelled`, or `cancelling` until its engines have answered; or how else it ended, if that was "
        "decided and only the rest of it was stopped."
    )
    was_running: bool = Field(description="An engine had a task of it when this request came.")
    engine_told: bool = Field(
        description="Its engines were told to stop. If something was running and this is false: they are told as soon "
        "as Redis answers, or it has just ended."
    )


class Cancel(Protocol):
    def __call__(self, row_id: UUID, now: datetime, /, *, why: str) -> Cancellation: ...


def cancel(principal: Principal, noun: str, row_id: UUID, was: str, act: Cancel, *, reason: str) -> Cancellation:
    """Safe to repeat: of what is cancelled already nothing runs and nobody is told. What ended otherwise is 409,
    also if it did so while it was asked to stop."""
    with audited(f"{noun}.cancel", str(row_id), reason=reason, before={"status": was}, **principal.signature()) as row:
        outcome = act(row_id, timezone.now(), why=cancel_message(principal.name, reason))
        row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_told": outcome.sent}
    if not outcome.found:
        raise not_found(f"{noun} {row_id}")
    if outcome.too_late:
        raise ApiProblem(409, Code.STATE_CONFLICT, f"The {noun} is over already: it is {outcome.status}.")
    return outcome
