"""Logs of engines: a node sends the lines that a reader asks for, through one capped stream.

`tail` asks once: for the last lines, or for those of a span of time, e.g. of one attempt. A `LogFollower` gets every
new line while it is read; the node stops sending a minute after the last call. Lines have positions that only grow, so
that tail and follow join without a gap or a duplicate.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from dalston_queue.broker.connection.shard import Argument, Call, Shard, pairs
from dalston_queue.broker.nodes.commands import Command, CommandStatus, NodeChannel
from dalston_queue.broker.protocol.validate import document, text

BATCHES_KEPT = 200
KEPT_S = 600
MAX_LINES = 2000
FOLLOW_S = 60  # how long a request to follow lasts
RENEW_S = 20  # how often the reader renews it
TAIL_TIMEOUT_S = 3.0
POLL_S = 0.05
STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z ")


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    position: int  # in its slot's log; grows, also over restarts
    at_ms: int  # when the node read it; 0 if it has no stamp
    text: str


class LogBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that a node sent together: `request_id` names the question they answer, empty for followed lines."""

    entry_id: str
    slot: str
    request_id: str
    lines: list[LogLine]


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question, and the state of the question: failed, with the reason; requested: the node is away;
    None: the node was removed with its commands."""

    status: CommandStatus | None
    lines: list[LogLine] = []
    complete: bool = False  # the lines have arrived


class NodeLogs:
    """broker.logs(node_id)."""

    def __init__(self, shard: Shard, node_id: str) -> None:
        self._shard = shard
        self._key = shard.keys.logs(node_id)
        self.channel = NodeChannel(shard, node_id)

    def tail(
        self,
        engine: str,
        *,
        lines: int = 200,
        since_ms: int | None = None,
        until_ms: int | None = None,
        containing: str = "",
        actor: str = "",
        timeout: float = TAIL_TIMEOUT_S,
    ) -> LogTail:
        """The last lines of an engine (slot `demo.0` or a whole process id, also of one that has ended), at most so
        many; with times, of that span only; `containing` this text. Waits for the node's answer, at most `timeout`
        seconds."""
        after = self.newest()
        span = {"since_ms": since_ms, "until_ms": until_ms}
        request_id = self.ask(engine, lines=lines, **span, containing=containing, actor=actor)
        end = time.monotonic() + timeout
        while True:
            status = self.channel.status(request_id)
            if status is None or status.ended or time.monotonic() > end:
                break
            time.sleep(POLL_S)
        for batch in self.read(after):
            if batch.request_id == request_id:
                return LogTail(status=status, lines=batch.lines, complete=True)
        return LogTail(status=status)

    def ask(
        self,
        engine: str,
        *,
        lines: int = 200,
        since_ms: int | None = None,
        until_ms: int | None = None,
        containing: str = "",
        actor: str = "",
    ) -> str:
        """Ask without waiting; the batch with this request id is the answer."""
        arguments: dict[str, str | int] = {"engine": engine, "lines": lines}
        if since_ms is not None:
            arguments["since_ms"] = since_ms
        if until_ms is not None:
            arguments["until_ms"] = until_ms
        if containing:
            arguments["containing"] = containing
        command = Command(name="tail_logs", arguments=arguments, actor=actor, command_id=f"tail.{secrets.token_hex(8)}")
        return self.channel.send(command)

    def follow(self, engine: str, actor: str = "") -> LogFollower:
        """By slot (`demo.0`), or by the process id of the one that runs there."""
        return LogFollower(self, engine, actor)

    def renew(self, engine: str, actor: str = "") -> None:
        """Ask the node to send new lines for another minute. All followers of an engine share one command per
        period."""
        command_id = f"follow.{engine}.{int(time.time()) // RENEW_S}"
        arguments = {"engine": engine, "seconds": FOLLOW_S}
        self.channel.send(Command(name="follow_logs", arguments=arguments, actor=actor, command_id=command_id))

    def newest(self) -> str:
        """The cursor after the newest batch."""
        rows = self._shard.command("XREVRANGE", self._key, "+", "-", "COUNT", 1)
        return rows[0][0].decode() if rows else "0"

    def read(self, after: str, block_ms: int = 0) -> list[LogBatch]:
        """All batches after this cursor (`entry_id` of the last is the next one)."""
        block = ("BLOCK", min(block_ms, 4000)) if block_ms else ()
        reply = self._shard.call(Call(self._key, ("XREAD", "COUNT", BATCHES_KEPT, *block, "STREAMS", self._key, after)))
        found = []
        for entry_id, raw in reply[0][1] if reply else []:
            fields = dict(pairs(raw))
            lines = document(fields.get(b"m", b""), list[tuple[int, str]])
            if lines is not None:
                found.append(
                    LogBatch(
                        entry_id=entry_id.decode(),
                        slot=text(fields.get(b"e", b"")),
                        request_id=text(fields.get(b"r", b"")),
                        lines=[_line(*line) for line in lines],
                    )
                )
        return found

    def write(self, slot: str, lines: Sequence[tuple[int, str]], request_id: str = "") -> None:
        """Called by the supervisor, with lines and their positions."""
        fields: list[Argument] = ["e", slot, "r", request_id, "m", msgspec.json.encode(lines)]
        self._shard.run("add_capped", [self._key], [BATCHES_KEPT, KEPT_S, *fields])


class LogFollower:
    """One engine's log, live: first its last lines, then each new one, once."""

    def __init__(self, logs: NodeLogs, engine: str, actor: str = "") -> None:
        found = node_and_slot(engine)
        self._logs = logs
        self._slot = found[1] if found else engine
        self._actor = actor
        self._cursor = logs.newest()
        self._position = 0
        self._renew_at = 0.0
        self._waits_until = time.monotonic() + TAIL_TIMEOUT_S
        self._early: list[LogLine] = []  # followed lines that came before the tail
        logs.renew(self._slot, actor)
        self._question = logs.ask(self._slot, actor=actor)

    def read(self, block_ms: int = 0) -> list[LogLine]:
        """New lines; call it about once per second. Raises Unavailable while Redis is away: call it again."""
        now = time.monotonic()
        if now >= self._renew_at:
            self._logs.renew(self._slot, self._actor)
            self._renew_at = now + RENEW_S
        found: list[LogLine] = []
        for batch in self._logs.read(self._cursor, block_ms):
            self._cursor = batch.entry_id
            if self._question and batch.request_id == self._question:
                found += batch.lines + self._early
                self._early, self._question = [], ""
            elif not batch.request_id and batch.slot == self._slot:
                (self._early if self._question else found).extend(batch.lines)
        if self._question and now > self._waits_until:  # no tail came: show what is followed
            found, self._early, self._question = self._early, [], ""
        fresh = []
        for line in found:
            if line.position > self._position:
                self._position = line.position
                fresh.append(line)
        return fresh


def node_and_slot(engine_id: str) -> tuple[str, str] | None:
    """(node, slot) of the process id of a supervised engine, `node.engine.number.boot`; None for any other name."""
    node, *rest = engine_id.rsplit(".", 3)
    return (node, f"{rest[0]}.{rest[1]}") if len(rest) == 3 else None


def _line(position: int, text: str) -> LogLine:
    stamp = STAMP.match(text)
    if stamp is None:
        return LogLine(position, 0, text)
    try:
        at = datetime.fromisoformat(stamp[1]).replace(tzinfo=UTC)
    except ValueError:
        return LogLine(position, 0, text)
    return LogLine(position, int(at.timestamp() * 1000), text[stamp.end() :])
