"""One engine's session in one queue of one shard: the fence, the sequence number and the call that has no answer yet.

Failure cases. The reply is lost: the same bytes are sent again, with the same sequence number, and the script gives the
stored answer. The session is gone (the engine was judged dead, or Redis lost it): every call is FENCED before anything
else, so a zombie can't settle or claim. Redis failed over and forgot the last calls: it names the number it knows, and
the session goes on from there; what it claimed in between is given again on the next beat.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dalston_queue.broker.connection.shard import Argument, Call, Dedicated, Shard, pairs, script
from dalston_queue.broker.engine.given import Given, Settlement
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.operations.lanes import Lanes, lane_field, read_lanes
from dalston_queue.broker.protocol.messages import MAX_ENTRY_BYTES
from dalston_queue.broker.protocol.types import TIERS, Settled, Tier

_ACCEPTED, _LOST = Settled.ACCEPTED, Settled.LOST  # looking a member up costs more than the rest of the line


TRIES = 20
"""Calls that tell the same results, when a failover or overlapping calls of one worker take the number away."""


class Answer(msgspec.Struct):
    """What calls brought; each has lists of its own, as msgspec makes them."""

    settled: dict[Given, Settled] = {}
    given: list[Given] = []
    unreadable: list[tuple[str, str]] = []  # stream, entry id: pending for us until dead_lettered


class _Unanswered(msgspec.Struct):
    """A call that was sent, what it settles, and the streams its answer will name by number."""

    call: Call
    settlements: Sequence[Settlement]
    streams: Sequence[str]
    before: int  # keys before the first stream


class Limits(msgspec.Struct, frozen=True):
    max_backlog: int = 50_000
    max_suspects: int = 2


class Session:
    def __init__(self, shard: Shard, queue: str, engine_id: str, capabilities: frozenset[str], limits: Limits) -> None:
        self.shard = shard
        self.queue = queue
        self._engine_id = engine_id
        self._engine = engine_id.encode()
        self._capabilities = capabilities
        self._limits = limits
        self._key = shard.keys.session(queue, engine_id)
        self._connection = Dedicated(shard, self._key)
        self._send: Callable[[Call], Any] = self._connection.call
        self._fence = ""
        self._number = 0
        self._unanswered: _Unanswered | None = None
        self._answer = Answer()  # what a repeated call brought stays here if the call behind it gets no reply
        self._backlog = 0  # events waiting, as far as we know
        self._look_at = 0.0
        self._use(Lanes(None, ()))

    # opening and closing

    def open(self) -> None:
        self._fence = secrets.token_hex(8)
        self._number = 0
        self._unanswered = None
        self._answer = Answer()
        keys = self.shard.keys
        # the queue exists from now on, even before its first task: the judge must see who serves it
        self.shard.run("index", [keys.stages()], [self.queue])
        self.shard.run("open_session", [self._key, keys.beats(self.queue)], [self._fence, self._engine_id])
        self.refresh_lanes()

    def resume(self) -> None:
        """Take up a session that another process opened, where Redis says that it is. Raises Fenced."""
        fence, number = self.shard.command("HMGET", self._key, "f", "n")
        if fence is None:
            raise self._fenced()
        self._fence, self._number, self._unanswered = fence.decode(), int(number), None
        self._send = self.shard.call  # from the pool: one request needs no connection of its own
        self.refresh_lanes()

    def close(self) -> None:
        keys = self.shard.keys
        names = [self._key, keys.beats(self.queue), keys.verdicts(self.queue), *self._streams]
        self.shard.run("close_session", names, [self._fence, self._engine_id])
        self._connection.close()

    def refresh_lanes(self) -> None:
        self._use(read_lanes(self.shard, self.queue))

    @property
    def is_answered(self) -> bool:
        return self._unanswered is None

    @property
    def wake_keys(self) -> list[str]:
        return [self.shard.keys.wake(self.queue, lane) for lane in self._readable]

    # the hot path

    def exchange(self, settlements: Sequence[Settlement], free: int, alone: bool) -> Answer:
        answer = self._answer
        if self._unanswered is not None:
            sent = self._unanswered
            self._read(sent, self._send(sent.call), answer, repeated=True)
            free -= len(answer.given)
            settlements = [settlement for settlement in settlements if settlement[0] not in answer.settled]
            alone = alone and not answer.given
        if settlements or free > 0:
            if len(settlements) > 1:
                settlements = sorted(settlements, key=_stream_of)
            for _ in range(TRIES):
                call = self._call(settlements, free, alone)
                self._unanswered = sent = _Unanswered(call, settlements, self._streams, self._before)
                self._read(sent, self._send(call), answer, repeated=False)
                if not settlements or settlements[0][0] in answer.settled:
                    break  # else it only learnt the number: what ended must be told and answered
            else:
                raise Unavailable(f"{TRIES} calls of {self._engine_id} in queue {self.queue} were out of order")
        self._answer = Answer()
        return answer

    def _call(self, settlements: Sequence[Settlement], free: int, alone: bool) -> Call:
        """Settlements are in the order of their streams."""
        count = len(settlements)
        if count:
            ended = [given for given, _, _ in settlements]
            of_kinds = [kind.encode() for _, kind, _ in settlements]
            heads = b"\n".join(map(Given.told, ended, of_kinds))
            bodies = b"\n".join([body for _, _, body in settlements])
            kinds = of_kinds[0][5:] if of_kinds.count(of_kinds[0]) == count else b"-"  # without "task."
            per_stream = Counter([given.stream for given in ended])
            indices = [self._indices.get(stream, b"1") for stream in per_stream]
            only = indices[0] if len(indices) == 1 else b"0"
            streams = b",".join([b"%b:%d" % each for each in zip(indices, per_stream.values(), strict=True)])
            late = b"1" if any(given.deadline_ms for given in ended) else b"0"
            rest = [given.task for given in ended]
            rest += [given.start for given in ended]
            rest += [given.entry for given in ended]
        else:
            heads, bodies, kinds, only, streams, late, rest = b"", b"", b"-", b"0", b"", b"0", []
        numbers = self._numbers(free, alone, count, kinds, late, only, streams)
        arguments: list[Argument] = [self._fence, self._engine_id, numbers, heads, bodies, *self._lane_fields, *rest]
        return script("settle_and_claim", self._exchange_keys, arguments)

    def _numbers(
        self, free: int, alone: bool, count: int, kinds: bytes, late: bytes, only: bytes, streams: bytes
    ) -> bytes:
        """ARGV 3 of settle_and_claim.lua. Once for each call: it counts the events that the call adds."""
        limits = self._limits
        # the length of the event stream is looked at when it may be half-way to the limit by what we add ourselves, and
        # ten times a second because of the others
        now = time.monotonic()
        self._backlog += 1 + count
        look = now >= self._look_at or self._backlog * 2 >= limits.max_backlog
        if look:
            self._look_at = now + 0.1
        return b"%d %d %d %b %d %d %b %b %b %b" % (
            self._number + 1,
            max(free, 0),
            limits.max_suspects if alone else 0,
            b"%d" % limits.max_backlog if look else b"",
            len(self._readable),
            count,
            kinds,
            late,
            only,
            streams,
        )

    def _read(self, sent: _Unanswered, reply: Any, answer: Answer, repeated: bool) -> None:
        status = reply[0]
        if status == b"OK":
            _, version, codes, now, backlog, unreadable, *claims = reply
            if backlog >= 0:
                self._backlog = backlog
            answer.given += self._givens(claims, sent.streams, sent.before, int(now))
            if unreadable:
                answer.unreadable += [
                    (sent.streams[i - sent.before - 1], entry.decode()) for i, entry in pairs(unreadable)
                ]
        elif status == b"AGAIN" and not repeated:
            # we never sent this number: a process that took up the same session did, and its answer is not for us
            self._number += 1
            self._unanswered = None
            return
        elif status == b"AGAIN":
            # it ran, and its reply got lost: what it claimed is ours, and a beat gives it again
            _, version, codes, places = reply
            lost = set(places.split())
            _, again = self.beat((), look=True)
            answer.given += [given for given in again if given.entry in lost]
        elif status == b"SEQUENCE":
            # a failover forgot our last calls: go on from what Redis knows
            self._number = int(reply[1])
            self._unanswered = None
            return
        else:
            raise self._fenced()
        self._number += 1
        self._unanswered = None
        for (given, _, _), code in zip(sent.settlements, codes, strict=True):
            answer.settled[given] = _ACCEPTED if code == 49 else _LOST  # b"1"
        if version != self._version:
            self._follow()

    def _givens(self, claims: list[Any], streams: Sequence[str], before: int, now_ms: int) -> list[Given]:
        """From indices of streams, each followed by what was claimed there."""
        found, stream, tier, engine = [], "", TIERS[0], self._engine
        for item in claims:
            if type(item) is int:
                position = item - before - 1
                stream, tier = streams[position], TIERS[position % 5]
            else:
                found.append(Given(item, stream, tier, engine, now_ms))
        return found

    # while tasks run

    def beat(self, held: Sequence[tuple[str, int, str, str, bytes]], look: bool) -> tuple[list[bytes], list[Given]]:
        """held: task, attempt, stream, entry, JSON progress. Returns an answer per task, and what to take up again."""
        arguments: list[Argument] = [self._fence, self._engine_id, MAX_ENTRY_BYTES, int(look)]
        for task_id, attempt, stream, entry_id, progress in held:
            arguments += (task_id, attempt, self._position(stream, 7), entry_id, progress)
        reply = self._send(script("beat", self._beat_keys, arguments))
        if reply[0] != b"OK":
            raise self._fenced()
        _, version, codes, again = reply
        given = self._givens(again, self._streams, 7, 0)
        if version != self._version:
            self._follow()
        return codes, given

    def release(self, held: Sequence[tuple[str, int, str]], body: bytes) -> list[bool]:
        keys, queue = self.shard.keys, self.queue
        names = [self._key, *keys.task_keys(queue), keys.lanes(queue), *self.wake_keys, *self._streams]
        arguments: list[Argument] = [self._fence, self._engine_id, len(self._readable), body]
        arguments += map(lane_field, self._readable)
        for task_id, attempt, stream in held:
            arguments += (task_id, attempt, self._position(stream, 7 + len(self._readable)))
        reply = self.shard.run("release", names, arguments)
        if reply[0] != b"OK":
            raise self._fenced()
        return [code == b"ok" for code in reply[1]]

    def dead_letter(self, stream: str, entry_id: str, reason: str = "") -> str:
        """Out of the stream, raw, to the dead letters. Returns why; "" when it was not ours any more."""
        keys, queue = self.shard.keys, self.queue
        safe = reason.translate({ord(c): "'" for c in '"\\'} | dict.fromkeys(range(32), " "))
        arguments: list[Argument] = [self._fence, self._engine_id, entry_id, safe, MAX_ENTRY_BYTES]
        reply = self.shard.run("dead_letter", [self._key, *keys.task_keys(queue), stream], arguments)
        if reply[0] == b"FENCED":
            raise self._fenced()
        return str(reply[1].decode()) if reply[0] == b"ok" else ""

    # inside

    def _use(self, lanes: Lanes) -> None:
        keys, queue = self.shard.keys, self.queue
        self._version = lanes.version
        self._readable = lanes.readable_by(self._capabilities)
        self._streams = [key for lane in self._readable for key in keys.lane(queue, lane)]
        self._positions = {stream: position for position, stream in enumerate(self._streams, 1)}
        head = [self._key, *keys.task_keys(queue), keys.lanes(queue)]
        suspects = [keys.stream(queue, lane, Tier.SUSPECT) for lane in lanes.capabilities if lane not in self._readable]
        self._before = 8 + len(self._readable)
        self._exchange_keys = [*head, keys.ageing(queue), *self.wake_keys, *self._streams, *suspects]
        self._beat_keys = [*head, *self._streams]
        self._lane_fields = [lane_field(lane).encode() for lane in self._readable]
        self._indices = {stream: b"%d" % self._position(stream, self._before) for stream in self._streams}

    def _follow(self) -> None:
        """Lanes came or went. What the call brought must not be lost over it: the next answer tells us again."""
        with contextlib.suppress(Unavailable):
            self.refresh_lanes()

    def _position(self, stream: str, before: int) -> int:
        # 1 is the session itself: never a task's stream, so the script answers "lost"
        return before + self._positions[stream] if stream in self._positions else 1

    def _fenced(self) -> Fenced:
        self._unanswered = None
        return Fenced(
            f"the session of {self._engine_id} in queue {self.queue} was ended: it was judged dead, or Redis lost it. "
            "Its tasks run elsewhere; drop them and open a new session"
        )


def _stream_of(settlement: Settlement) -> str:
    return settlement[0].stream
