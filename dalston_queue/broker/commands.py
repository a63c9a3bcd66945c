"""Commands from the API to a node's supervisor, their outcome, and followed log lines: capped streams."""

from __future__ import annotations

from typing import Any

import msgspec

from dalston_queue.broker.shard import Call, Shard, pairs


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


COMMANDS_KEPT = 200
LOG_LINES_KEPT = 2000
KEPT_S = 24 * 3600


class NodeChannel:
    """broker.node(node_id): the API sends and awaits, the node's supervisor receives and replies."""

    def __init__(self, shard: Shard, node_id: str) -> None:
        self._shard = shard
        self._commands = shard.keys.commands(node_id)
        self._replies = shard.keys.replies(node_id)
        self._logs = shard.keys.logs(node_id)

    def send(self, request: Command) -> str:
        """Dashboard: returns the command id."""
        return self._add(self._commands, COMMANDS_KEPT, [("m", msgspec.json.encode(request))])

    def receive(self, after: str, block_ms: int = 0, count: int = 20) -> list[Command]:
        """Supervisor: commands after this id ("0" from the start); keep the last id in the state file. A command
        that can't be read is skipped."""
        found = []
        for entry_id, fields in self._read(self._commands, after, block_ms, count):
            try:
                request = msgspec.json.decode(fields.get(b"m", b""), type=Command)
            except msgspec.MsgspecError:
                continue
            found.append(msgspec.structs.replace(request, command_id=entry_id, at_ms=int(entry_id.partition("-")[0])))
        return found

    def reply(self, reply: Reply) -> None:
        self._add(self._replies, COMMANDS_KEPT, [("m", msgspec.json.encode(reply))])

    def outcome(self, command_id: str) -> Reply | None:
        """Dashboard: the reply to this command, None while there is none. A command may be answered in steps; the
        last counts."""
        rows = self._shard.command("XREVRANGE", self._replies, "+", "-", "COUNT", COMMANDS_KEPT)
        for _, fields in rows:
            try:
                reply = msgspec.json.decode(dict(pairs(fields)).get(b"m", b""), type=Reply)
            except msgspec.MsgspecError:
                continue
            if reply.command_id == command_id:
                return reply
        return None

    def log(self, engine_id: str, lines: list[str]) -> None:
        if lines:
            self._add(self._logs, LOG_LINES_KEPT, [("e", engine_id), ("m", msgspec.json.encode(lines))])

    def follow(self, after: str = "$", block_ms: int = 1000, count: int = 200) -> list[tuple[str, str, str]]:
        """(id, engine_id, line) after this id."""
        found = []
        for entry_id, fields in self._read(self._logs, after, block_ms, count):
            try:
                lines = msgspec.json.decode(fields.get(b"m", b""), type=list[str])
            except msgspec.MsgspecError:
                continue
            engine = fields.get(b"e", b"").decode(errors="replace")
            found += [(entry_id, engine, line) for line in lines]
        return found

    def _add(self, key: str, kept: int, fields: list[tuple[str, str | bytes]]) -> str:
        flat = [part for pair in fields for part in pair]
        return str(self._shard.run("add_capped", [key], [kept, KEPT_S, *flat]).decode())

    def _read(self, key: str, after: str, block_ms: int, count: int) -> list[tuple[str, dict[bytes, bytes]]]:
        # XREAD knows no way not to block other than leaving BLOCK out: 0 would block for ever
        block = ("BLOCK", min(block_ms, 4000)) if block_ms else ()
        reply = self._shard.call(Call(key, ("XREAD", "COUNT", count, *block, "STREAMS", key, after)))
        rows = reply[0][1] if reply else []
        return [(entry_id.decode(), dict(pairs(f))) for entry_id, f in rows]
