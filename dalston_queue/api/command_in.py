"""An order to a node: what POST /nodes/{node_id}/commands takes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

MAX_REPLICAS = 256


class Order(StrEnum):
    DRAIN = "drain"
    RESUME = "resume"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    RESTART = "restart"
    ROLLING_RESTART = "rolling_restart"
    SCALE = "scale"


OF_ENGINES = {Order.RESTART, Order.ROLLING_RESTART, Order.SCALE}


class CommandIn(Schema):
    model_config = ConfigDict(extra="forbid")

    order: Order
    engine: str | None = Field(
        None, min_length=1, max_length=200, description="For restart, rolling_restart and scale."
    )
    replicas: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="For scale.")
    reason: str = Field("", max_length=500, description="Why; kept in the audit trail, and shown on the node.")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.order in OF_ENGINES) != (self.engine is not None):
            raise ValueError(f"{self.order} {'needs an' if self.order in OF_ENGINES else 'takes no'} engine")
        if (self.order is Order.SCALE) != (self.replicas is not None):
            raise ValueError(f"{self.order} {'needs' if self.order is Order.SCALE else 'takes no'} replicas")
        return self

    def arguments(self) -> dict[str, Any]:
        given = {"engine": self.engine, "replicas": self.replicas, "reason": self.reason or None}
        return {name: value for name, value in given.items() if value is not None}
