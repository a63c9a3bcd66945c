"""Commands from the dashboard to a node's supervisor, their outcome, and followed log lines: capped streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class Command(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # drain, resume, restart, rolling_restart, scale, follow_logs …
    arguments: dict[str, Any] = {}
    actor: str = ""
    command_id: str = ""  # given by send(); the reply carries it
    at_ms: int = 0


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    command_id: str
    ok: bool
    message: str = ""
    detail: dict[str, Any] = {}


class NodeChannel:
    """broker.node(node_id)"""

    def __init__(self, broker: Broker, node_id: str) -> None:
        raise NotImplementedError

    def send(self, command: Command) -> str:
        """Dashboard: returns the command id."""
        raise NotImplementedError

    def receive(self, after: str, block_ms: int = 0, count: int = 20) -> list[Command]:
        """Supervisor: commands after this id ("0" from the start); keep the last id in the state file."""
        raise NotImplementedError

    def reply(self, reply: Reply) -> None:
        raise NotImplementedError

    def outcome(self, command_id: str) -> Reply | None:
        """Dashboard: the reply to this command, None while there is none."""
        raise NotImplementedError

    def log(self, engine_id: str, lines: list[str]) -> None:
        raise NotImplementedError

    def follow(self, after: str = "$", block_ms: int = 1000, count: int = 200) -> list[tuple[str, str, str]]:
        """(id, engine_id, line) after this id."""
        raise NotImplementedError
