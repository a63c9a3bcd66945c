"""Nodes and engines in the API: commands to a node and their states, nodes and engines as they are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from ninja import Schema
from pydantic import ConfigDict, Field, Strict, model_validator

from dalston_queue.api.schemas.base import ABSENT, BodyIn, either
from dalston_queue.broker.nodes.commands import MAX_REPLICAS, CommandState, CommandStatus, NodeCommand
from dalston_queue.broker.nodes.logs import LogLine
from dalston_queue.broker.nodes.registry import EngineInfo, NodeInfo
from dalston_queue.broker.protocol.keys import COMMAND_ID
from dalston_queue.broker.protocol.validate import moment, moment_if

_ARGUMENTS = {
    NodeCommand.RESTART: {"engine"},
    NodeCommand.ROLLING_RESTART: {"engine"},
    NodeCommand.SCALE: {"engine", "replicas"},
    NodeCommand.RELEASE_GPU: {"gpu"},
}
"""Arguments of each command, all required; the other commands take none."""
_TYPES = {"engine": {"type": "string"}, "replicas": {"type": "integer"}, "gpu": {"type": "string"}}


class CommandIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra=either(
            *(
                {
                    "command": {"enum": [command]},
                    **{name: _TYPES[name] if name in _ARGUMENTS.get(command, ()) else ABSENT for name in _TYPES},
                }
                for command in NodeCommand
            )
        )
    )

    command: Annotated[NodeCommand, Strict(False)]
    engine: str | None = Field(
        None, min_length=1, max_length=200, description="For restart, rolling_restart and scale."
    )
    replicas: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="For scale.")
    gpu: str | None = Field(None, min_length=1, max_length=100, description="Its UUID, for release_gpu.")
    command_id: str | None = Field(
        None,
        pattern=f"^{COMMAND_ID}$",
        description="Your own id of this command: sent twice, it is executed once.",
    )
    reason: str = Field("", max_length=500, description="Why; kept in the audit trail, and shown on the node.")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = _ARGUMENTS.get(self.command, set())
        for name, one in (("engine", "an engine"), ("replicas", "replicas"), ("gpu", "a gpu")):
            if (name in needed) != (getattr(self, name) is not None):
                raise ValueError(f"{self.command} {f'needs {one}' if name in needed else f'takes no {name}'}")
        return self

    def arguments(self) -> dict[str, Any]:
        values = {"engine": self.engine, "replicas": self.replicas, "gpu": self.gpu, "reason": self.reason or None}
        return {name: value for name, value in values.items() if value is not None}


class EngineOut(Schema):
    engine_id: str
    state: str
    queues: list[str]
    capabilities: list[str]
    capacity: int
    info: dict[str, Any] = Field(
        description="From its heartbeats. Without `tasks` and `owner` for a token that sees only its own project."
    )
    last_beat_at: datetime | None


class NodeOut(Schema):
    node_id: str
    state: str = Field(description="active, cordoned, draining, dead; empty for engines without a node.")
    info: dict[str, Any]
    last_beat_at: datetime | None
    engines: list[EngineOut]


class CommandOut(Schema):
    command_id: str
    command: str
    state: CommandState = Field(description="`requested` until the node has `taken` it; then `done` or `failed`.")
    message: str = Field(description="The node's last message.")
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
        command=status.name,
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
    engines: list[str] = Field(description="Forgotten with the node.")


OF_PROJECTS = frozenset({"tasks", "owner"})
"""Fields of a heartbeat that belong to the projects of the engine's tasks."""


def node_out(node: NodeInfo | None, node_id: str, engines: list[EngineInfo], *, everything: bool) -> NodeOut:
    return NodeOut(
        node_id=node_id,
        state=node.state if node else "",
        info=node.info if node else {},
        last_beat_at=moment_if(node.at_ms) if node else None,
        engines=[_engine_out(engine, everything) for engine in sorted(engines, key=lambda engine: engine.engine_id)],
    )


def _engine_out(engine: EngineInfo, everything: bool) -> EngineOut:
    info = {name: value for name, value in engine.info.items() if everything or name not in OF_PROJECTS}
    return EngineOut(
        engine_id=engine.engine_id,
        state=engine.state,
        queues=list(engine.queues),
        capabilities=list(engine.capabilities),
        capacity=engine.capacity,
        info=info,
        last_beat_at=moment_if(engine.at_ms),
    )
