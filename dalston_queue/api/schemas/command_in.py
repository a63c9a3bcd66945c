"""An order to a node: what POST /nodes/{node_id}/commands takes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, Strict, model_validator

from dalston_queue.api.schemas.base import ABSENT, BodyIn, either
from dalston_queue.broker.nodes.commands import MAX_REPLICAS, Order
from dalston_queue.broker.protocol.names import COMMAND_ID

_TAKES = {
    Order.RESTART: {"engine"},
    Order.ROLLING_RESTART: {"engine"},
    Order.SCALE: {"engine", "replicas"},
    Order.RELEASE_GPU: {"gpu"},
}
"""What each order needs; it takes nothing else, and the others take nothing."""
_TYPES = {"engine": {"type": "string"}, "replicas": {"type": "integer"}, "gpu": {"type": "string"}}


class CommandIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra=either(
            *(
                {
                    "order": {"enum": [order]},
                    **{name: _TYPES[name] if name in _TAKES.get(order, ()) else ABSENT for name in _TYPES},
                }
                for order in Order
            )
        )
    )

    order: Annotated[Order, Strict(False)]
    engine: str | None = Field(
        None, min_length=1, max_length=200, description="For restart, rolling_restart and scale."
    )
    replicas: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="For scale.")
    gpu: str | None = Field(None, min_length=1, max_length=100, description="Its UUID, for release_gpu.")
    command_id: str | None = Field(
        None,
        pattern=f"^{COMMAND_ID}$",
        description="Your own id of this order: given twice, it is obeyed once.",
    )
    reason: str = Field("", max_length=500, description="Why; kept in the audit trail, and shown on the node.")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = _TAKES.get(self.order, set())
        for name, one in (("engine", "an engine"), ("replicas", "replicas"), ("gpu", "a gpu")):
            if (name in needed) != (getattr(self, name) is not None):
                raise ValueError(f"{self.order} {f'needs {one}' if name in needed else f'takes no {name}'}")
        return self

    def arguments(self) -> dict[str, Any]:
        given = {"engine": self.engine, "replicas": self.replicas, "gpu": self.gpu, "reason": self.reason or None}
        return {name: value for name, value in given.items() if value is not None}
