"""An order to replay dead letters as the API shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.models import ReplayBatch
from dalston_queue.models.replay_batch import OrderState


class ReplayBatchOut(Schema):
    order_id: UUID
    state: OrderState
    actor: str = Field(description="Who gave it.")
    reason: str
    filter: dict[str, Any] | None = Field(description="What was asked for; null if the letters were named.")
    parameters: dict[str, Any] | None
    priority: Priority | None
    rate_per_minute: int | None
    matched: int = Field(description="Letters it is about; what arrived after it was given is not among them.")
    handled: int = Field(description="Letters that have had their turn: replayed, already and refused together.")
    replayed: int
    already: int = Field(description="Replayed before their turn: all letters of a job are taken back together.")
    refused: int
    error: str | None = Field(description="Why it was stopped, if no operator did.")
    ended_by: str | None = Field(description="Who undid or stopped it.")
    created_at: datetime
    starts_at: datetime = Field(description="Until then it waits and can be undone.")
    started_at: datetime | None
    finished_at: datetime | None
    already_open: bool = Field(description="You ordered what this open order does already; no second one was made.")


class WithdrawnOut(Schema):
    outcome: Literal["undone", "stopped"] = Field(description="undone: nothing of it has happened.")
    order: ReplayBatchOut


_TEXTS = ("priority", "error", "ended_by")  # empty: none


def replay_batch_out(order: ReplayBatch) -> ReplayBatchOut:
    names = [name for name in ReplayBatchOut.model_fields if name not in {"order_id", *_TEXTS}]
    same: dict[str, Any] = {name: getattr(order, name) for name in names}
    same |= {name: getattr(order, name) or None for name in _TEXTS}
    return ReplayBatchOut(order_id=order.id, **same)
