"""Nodes, engines and what became of an order, as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from dalston_queue.broker.nodes.commands import CommandState, CommandStatus
from dalston_queue.broker.nodes.logs import LogLine
from dalston_queue.broker.nodes.registry import EngineInfo, NodeInfo
from dalston_queue.broker.protocol.moments import moment, moment_if


class EngineOut(Schema):
    engine_id: str
    state: str
    queues: list[str]
    capabilities: list[str]
    capacity: int
    info: dict[str, Any] = Field(
        description="What its beats say. Without `tasks` and `owner` for a token that sees its own project only."
    )
    last_beat_at: datetime | None


class NodeOut(Schema):
    node_id: str
    state: str = Field(description="active, cordoned, draining, unhealthy, dead; empty for engines without a node.")
    info: dict[str, Any]
    last_beat_at: datetime | None
    engines: list[EngineOut]


class CommandOut(Schema):
    command_id: str
    order: str
    state: CommandState = Field(description="`requested` until the node has `taken` it; then `done` or `failed`.")
    message: str = Field(description="The node's last word.")
    requested_at: datetime
    taken_at: datetime | None
    ended_at: datetime | None


class LogLineOut(Schema):
    at: datetime | None = Field(description="When the node read it.")
    text: str


class LogsOut(Schema):
    node_id: str
    engine: str
    lines: list[LogLineOut]


def command_out(status: CommandStatus) -> CommandOut:
    return CommandOut(
        command_id=status.command_id,
        order=status.name,
        state=status.state,
        message=status.message or "The node has not answered yet.",
        requested_at=moment(status.requested_at_ms),
        taken_at=moment_if(status.taken_at_ms),
        ended_at=moment_if(status.ended_at_ms),
    )


def logs_out(node_id: str, engine: str, lines: list[LogLine]) -> LogsOut:
    shown = [LogLineOut(at=moment_if(line.at_ms), text=line.text) for line in lines]
    return LogsOut(node_id=node_id, engine=engine, lines=shown)


class ForgottenOut(Schema):
    node_id: str
    engines: list[str] = Field(description="Those that were forgotten with it.")


OF_PROJECTS = frozenset({"tasks", "owner"})
"""What a beat says of the work itself: it belongs to whichever project it is for."""


def node_out(node: NodeInfo | None, node_id: str, engines: list[EngineInfo], *, everything: bool) -> NodeOut:
    return NodeOut(
        node_id=node_id,
        state=node.state if node else "",
        info=node.info if node else {},
        last_beat_at=moment_if(node.at_ms) if node else None,
        engines=[_engine_out(engine, everything) for engine in sorted(engines, key=lambda engine: engine.engine_id)],
    )


def _engine_out(engine: EngineInfo, everything: bool) -> EngineOut:
    info = {name: said for name, said in engine.info.items() if everything or name not in OF_PROJECTS}
    return EngineOut(
        engine_id=engine.engine_id,
        state=engine.state,
        queues=list(engine.queues),
        capabilities=list(engine.capabilities),
        capacity=engine.capacity,
        info=info,
        last_beat_at=moment_if(engine.at_ms),
    )
