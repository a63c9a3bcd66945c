"""Cancels a task or a job for somebody: asks, writes it down, and says what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils import timezone
from ninja import Schema
from pydantic import Field

from dalston_queue.api.principal import Principal
from dalston_queue.api.problems import ApiProblem, Code, not_found
from dalston_queue.audit import audited
from dalston_queue.jobs.cancel import Cancellation, words_of


class CancelOut(Schema):
    id: UUID
    status: str = Field(description="`cancelled`, or still `running` or `cancelling` until the engine has stopped.")
    was_running: bool = Field(description="Something of it was in a stream or at an engine.")
    engine_told: bool = Field(description="If false, the engines are told as soon as Redis answers.")


class Cancel(Protocol):
    def __call__(self, row_id: UUID, now: datetime, /, *, why: str) -> Cancellation: ...


def cancel(principal: Principal, noun: str, row_id: UUID, was: str, act: Cancel, *, reason: str) -> CancelOut:
    """Safe to repeat: what is cancelled already answers the same. What ended otherwise is 409."""
    with audited(f"{noun}.cancel", str(row_id), reason=reason, before={"status": was}, **principal.signature()) as row:
        outcome = act(row_id, timezone.now(), why=words_of(principal.name, reason))
        row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_told": outcome.told}
    if not outcome.found:
        raise not_found(f"{noun} {row_id}")
    if outcome.already_over and outcome.status != "cancelled":
        raise ApiProblem(409, Code.STATE_CONFLICT, f"The {noun} is over already: it is {outcome.status}.")
    return CancelOut(
        id=row_id,
        status=outcome.status,
        was_running=outcome.was_running,
        engine_told=outcome.told or outcome.already_over,
    )
