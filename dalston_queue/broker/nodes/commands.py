"""Commands from the API to a node's supervisor, and the state of each: requested, taken, then done or failed.

A command has an id: sent twice, it arrives once. A stream has the commands of a node, a hash beside it their states,
for as long as the stream keeps the command. Questions for logs have a stream of their own: each page that follows a log
asks several times a minute, and must not push out a drain that waits for its node.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from dalston_queue.broker.connection.shard import Argument, Call, Shard, pairs
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.protocol.keys import COMMAND_ID
from dalston_queue.broker.protocol.validate import document, text, timed

COMMANDS_KEPT = 1000
QUESTIONS_KEPT = 200
KEPT_S = 24 * 3600
POLL_S = 0.1
MAX_REPLICAS = 256  # of one engine on a node
LOG_COMMANDS = ("tail_logs", "follow_logs")  # questions, not part of a node's history


class NodeCommand(StrEnum):
    """Commands of an operator, from the API and from the page."""

    DRAIN = "drain"
    RESUME = "resume"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    RESTART = "restart"
    ROLLING_RESTART = "rolling_restart"
    SCALE = "scale"
    RELEASE_GPU = "release_gpu"


class CommandState(StrEnum):
    REQUESTED = "requested"  # sent; the node moves it on
    TAKEN = "taken"  # the node works on it
    DONE = "done"
    FAILED = "failed"  # refused or not possible; the message says why


class Command(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # a NodeCommand, or a question for logs
    arguments: dict[str, Any] = {}
    actor: str = ""
    command_id: str = ""  # the sender's; send() creates one if there is none
    entry_id: str = ""  # its position in the stream, for receive(after=…)
    at_ms: int = 0
    asks: bool = False  # it came by the stream of questions: its entry id is a position in that stream


class CommandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its state. Times by the Redis server's clock."""

    command_id: str
    name: str
    arguments: dict[str, Any]
    actor: str
    state: CommandState
    message: str  # the node's last message; empty before its first reply
    requested_at_ms: int
    taken_at_ms: int | None = None
    ended_at_ms: int | None = None

    @property
    def ended(self) -> bool:
        return self.state in (CommandState.DONE, CommandState.FAILED)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor's report about a command."""

    command_id: str
    state: CommandState
    message: str = ""


class NodeChannel:
    """broker.node(node_id): the API sends and reads, the node's supervisor receives and replies."""

    def __init__(self, shard: Shard, node_id: str) -> None:
        self._shard = shard
        self._commands = shard.keys.commands(node_id)
        self._questions = shard.keys.questions(node_id)
        self._replies = shard.keys.replies(node_id)

    def send(self, command: Command) -> str:
        """Returns the command's id. A repeated id sends nothing; Invalid if another command has it."""
        command_id = command.command_id or secrets.token_hex(8)
        if not re.fullmatch(COMMAND_ID, command_id):
            raise Invalid(f"command id {command_id!r} must be 1 to 100 letters, digits, dots, dashes and underscores")
        wanted = msgspec.structs.replace(command, command_id=command_id)
        asks = command.name in LOG_COMMANDS
        stream, kept = (self._questions, QUESTIONS_KEPT) if asks else (self._commands, COMMANDS_KEPT)
        arguments: list[Argument] = [command_id, kept, KEPT_S, msgspec.json.encode(wanted)]
        sent = document(self._shard.run("send_command", [stream, self._replies], arguments), Command)
        if sent is None or (sent.name, sent.arguments) != (command.name, command.arguments):
            raise Invalid(
                f"command id {command_id!r} belongs to another command: {sent.name if sent else 'unreadable'}"
            )
        return command_id

    def status(self, command_id: str) -> CommandStatus | None:
        """None: there is no such command, or it is older than a day."""
        return self._statuses([command_id])[0] if re.fullmatch(COMMAND_ID, command_id) else None

    def wait(self, command_id: str, seconds: float) -> CommandStatus | None:
        """Its status when it has ended, or after so many seconds."""
        end = time.monotonic() + seconds
        while (status := self.status(command_id)) is not None and not status.ended and time.monotonic() < end:
            time.sleep(POLL_S)
        return status

    def recent(self, count: int = 20) -> list[CommandStatus]:
        """Commands to this node, the newest first; questions for logs are left out."""
        rows = self._shard.command("XREVRANGE", self._commands, "+", "-", "COUNT", count)
        read = (document(dict(pairs(fields)).get(b"m", b""), Command) for _, fields in rows)
        ids = [command.command_id for command in read if command]
        return [status for status in self._statuses(ids) if status is not None]

    # the supervisor's side

    def receive(self, after: str, block_ms: int = 0, count: int = 20, asked: str = "") -> list[Command]:
        """Commands after this entry ("0" from the start); keep the last entry id in the state file. Then questions,
        after `asked` if that is another position. One that can't be read is skipped."""
        # without BLOCK, XREAD returns at once; BLOCK 0 would block for ever
        block = ("BLOCK", min(block_ms, 4000)) if block_ms else ()
        streams = (self._commands, self._questions, after, asked or after)
        reply = self._shard.call(Call(self._commands, ("XREAD", "COUNT", count, *block, "STREAMS", *streams)))
        found = []
        for stream, entries in reply or []:
            asks = stream.decode() == self._questions
            for entry_id, fields in entries:
                command = document(dict(pairs(fields)).get(b"m", b""), Command)
                if command is not None:
                    position = entry_id.decode()
                    at_ms = int(position.partition("-")[0])
                    found.append(msgspec.structs.replace(command, entry_id=position, at_ms=at_ms, asks=asks))
        return found

    def reply(self, reply: Reply) -> None:
        """Repeatable; after done or failed nothing changes the state."""
        self._shard.run("answer_command", [self._replies], [reply.command_id, reply.state, reply.message])

    def _statuses(self, ids: Sequence[str]) -> list[CommandStatus | None]:
        if not ids:
            return []
        endings = ("", *(f":{state}" for state in _REPLIES))
        values = self._shard.command("HMGET", self._replies, *(name + end for name in ids for end in endings))
        size = len(endings)
        return [_status(values[index : index + size]) for index in range(0, len(values), size)]


_REPLIES = (CommandState.TAKEN, CommandState.DONE, CommandState.FAILED)


def _status(values: list[bytes | None]) -> CommandStatus | None:
    """From the fields of one command: the command itself, then the replies to it."""
    sent, *replies = (timed(value) for value in values)
    command = document(sent[1], Command) if sent else None
    if sent is None or command is None:
        return None
    state, message, ended_at = CommandState.REQUESTED, "", None
    for name, reply in zip(_REPLIES, replies, strict=True):
        if reply is not None:
            state, message = name, text(reply[1])
            ended_at = None if name is CommandState.TAKEN else reply[0]
    taken = replies[0]
    return CommandStatus(
        command_id=command.command_id,
        name=command.name,
        arguments=command.arguments,
        actor=command.actor,
        state=state,
        message=message,
        requested_at_ms=sent[0],
        taken_at_ms=taken[0] if taken else ended_at,
        ended_at_ms=ended_at,
    )
