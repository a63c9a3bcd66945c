"""Nodes, engines and commands to them as the API shows and takes them."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from dalston_queue.broker.commands import Reply
from dalston_queue.broker.registry import EngineInfo, NodeInfo

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


class EngineOut(Schema):
    engine_id: str
    state: str
    queues: list[str]
    capabilities: list[str]
    capacity: int
    info: dict[str, Any]
    last_beat_at: datetime | None


class NodeOut(Schema):
    node_id: str
    state: str = Field(description="active, cordoned, draining, unhealthy, dead; empty for engines without a node.")
    info: dict[str, Any]
    last_beat_at: datetime | None
    engines: list[EngineOut]


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


class CommandState(StrEnum):
    REQUESTED = "requested"
    DONE = "done"
    REFUSED = "refused"


class CommandOut(Schema):
    command_id: str
    state: CommandState = Field(description="`requested` until the node has answered.")
    message: str


def command_out(command_id: str, reply: Reply | None) -> CommandOut:
    if reply is None:
        return CommandOut(command_id=command_id, state=CommandState.REQUESTED, message="The node has not answered yet.")
    state = CommandState.DONE if reply.ok else CommandState.REFUSED
    return CommandOut(command_id=command_id, state=state, message=reply.message)


def node_out(node: NodeInfo | None, node_id: str, engines: list[EngineInfo]) -> NodeOut:
    return NodeOut(
        node_id=node_id,
        state=node.state if node else "",
        info=node.info if node else {},
        last_beat_at=_time(node.at_ms) if node else None,
        engines=[_engine_out(engine) for engine in sorted(engines, key=lambda engine: engine.engine_id)],
    )


def _engine_out(engine: EngineInfo) -> EngineOut:
    return EngineOut(
        engine_id=engine.engine_id,
        state=engine.state,
        queues=list(engine.queues),
        capabilities=list(engine.capabilities),
        capacity=engine.capacity,
        info=engine.info,
        last_beat_at=_time(engine.at_ms),
    )


def _time(ms: int) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
