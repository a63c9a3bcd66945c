"""Nodes, engines and what became of an order, as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from ninja import Schema
from pydantic import Field

from dalston_queue.broker.commands import Reply
from dalston_queue.broker.registry import EngineInfo, NodeInfo


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
