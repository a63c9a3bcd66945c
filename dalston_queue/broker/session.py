"""One engine's session in one queue of one shard: the fence, the sequence number and the call that has no answer yet.

Failure cases. The reply is lost: the same bytes are sent again, with the same sequence number, and the script gives the
stored answer. The session is gone (the engine was judged dead, or Redis lost it): every call is FENCED before anything
else, so a zombie can't settle or claim. Redis failed over and forgot the last calls: it names the number it knows, and
the session goes on from there; what it claimed in between is given again on the next beat.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.lanes import Lanes, read_lanes
from dalston_queue.broker.link import Link, Packed, PooledLink, bulk
from dalston_queue.broker.messages import MAX_ENTRY_BYTES
from dalston_queue.broker.shard import Argument, Shard, pairs
from dalston_queue.broker.types import TIERS, EventKind, Settled, Tier


class Settlement(NamedTuple):
    task_id: str
    attempt: int
    stream: str
    kind: EventKind
    body: bytes


class Given(NamedTuple):
    """An entry as the scripts give it."""

    stream: str
    tier: Tier
    entry_id: str
    deliveries: int
    losses: int
    deadline_ms: int
    values: list[Any]  # task, job, attempt, enqueued_at, timeout, JSON


class Answer:
    __slots__ = ("given", "settled", "unreadable")

    def __init__(self) -> None:
        self.settled: dict[tuple[str, int], Settled] = {}
        self.given: list[Given] = []
        self.unreadable: list[tuple[str, str]] = []  # stream, entry id: pending for us until buried


class _Unanswered(NamedTuple):
    """A call that was sent: its bytes, what it settles, and the streams its answer will name by number."""

    packed: bytes
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
        self._capabilities = capabilities
        self._limits = limits
        self._key = shard.keys.session(queue, engine_id)
        self._link = Link(shard, self._key)
        self._fence = ""
        self._number = 0
        self._unanswered: _Unanswered | None = None
        self._use(Lanes(None, ()))

    # opening and closing

    def open(self) -> None:
        self._fence = secrets.token_hex(8)
        self._number = 0
        self._unanswered = None
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
        self._link = PooledLink(self.shard, self._key)
        self.refresh_lanes()

    def close(self) -> None:
        keys = self.shard.keys
        names = [self._key, keys.beats(self.queue), keys.verdicts(self.queue), *self._streams]
        self.shard.run("close_session", names, [self._fence, self._engine_id])
        self._link.close()

    def refresh_lanes(self) -> None:
        self._use(read_lanes(self.shard, self.queue))

    @property
    def wake_keys(self) -> list[str]:
        return [self.shard.keys.wake(self.queue, lane) for lane in self._readable]

    # the hot path

    def exchange(self, settlements: Sequence[Settlement], free: int, alone: bool) -> Answer:
        answer = Answer()
        if self._unanswered is not None:
            self._send(self._unanswered, answer)
            free -= len(answer.given)
            settlements = [s for s in settlements if (s.task_id, s.attempt) not in answer.settled]
            alone = alone and not answer.given
        if settlements or free > 0:
            before = 8 + len(self._readable)
            suspects = self._limits.max_suspects if alone else 0
            bulks = [bulk(b"%d" % (self._number + 1)), bulk(b"%d" % max(free, 0)), bulk(b"%d" % suspects)]
            for task_id, attempt, stream, kind, body in settlements:
                position = self._position(stream, before)
                bulks += (bulk(f"{task_id}\t{attempt}\t{position}\t{kind.value}".encode()), bulk(body))
            packed = self._exchange.with_bulks(bulks)
            self._send(_Unanswered(packed, settlements, self._streams, before), answer)
        return answer

    def _send(self, call: _Unanswered, answer: Answer) -> None:
        repeated, self._unanswered = self._unanswered is call, call
        reply = self._link.call(self._exchange.script, call.packed)
        status = reply[0]
        if status == b"OK":
            _, version, codes, claims, unreadable = reply
            for claim in claims:
                answer.given.append(_given(claim, call.streams, call.before))
            for index, entry_id in pairs(unreadable):
                answer.unreadable.append((call.streams[index - call.before - 1], entry_id.decode()))
        elif status == b"AGAIN" and not repeated:
            # we never sent this number: a process that took up the same session did, and its answer is not for us
            self._number += 1
            self._unanswered = None
            return
        elif status == b"AGAIN":
            # it ran, and its reply got lost: what it claimed is ours, and a beat gives it again
            _, version, codes, places = reply
            lost = set(places.decode().split())
            _, again = self.beat((), look=True)
            answer.given += [given for given in again if given.entry_id in lost]
        elif status == b"SEQUENCE":
            # a failover forgot our last calls: go on from what Redis knows
            self._number = int(reply[1])
            self._unanswered = None
            return
        else:
            raise self._fenced()
        self._number += 1
        self._unanswered = None
        for settlement, code in zip(call.settlements, codes, strict=True):
            answer.settled[settlement[0], settlement[1]] = Settled.ACCEPTED if code == 49 else Settled.LOST  # b"1"
        self._follow(version)

    # while tasks run

    def beat(self, held: Sequence[tuple[str, int, str, bytes]], look: bool) -> tuple[list[bytes], list[Given]]:
        """held: task, attempt, stream, JSON progress. Returns an answer per task, and what to take up again."""
        arguments: list[Argument] = [int(look)]
        for task_id, attempt, stream, progress in held:
            arguments += (task_id, attempt, self._position(stream, 7), progress)
        reply = self._link.call(self._beat.script, self._beat.with_bulks(list(map(bulk, arguments))))
        if reply[0] != b"OK":
            raise self._fenced()
        _, version, codes, again = reply
        given = [_given(claim, self._streams, 7) for claim in again]
        self._follow(version)
        return codes, given

    def hand_back(self, held: Sequence[tuple[str, int, str]], body: bytes) -> list[bool]:
        keys, queue = self.shard.keys, self.queue
        names = [self._key, *keys.task_keys(queue), *self.wake_keys, *self._streams]
        arguments: list[Argument] = [self._fence, self._engine_id, len(self._readable), body]
        for task_id, attempt, stream in held:
            arguments += (task_id, attempt, self._position(stream, 6 + len(self._readable)))
        reply = self.shard.run("hand_back", names, arguments)
        if reply[0] != b"OK":
            raise self._fenced()
        return [code == b"ok" for code in reply[1]]

    def bury(self, stream: str, entry_id: str, reason: str = "") -> str:
        """Out of the stream, raw, to the dead letters. Returns why; "" when it was not ours any more."""
        keys, queue = self.shard.keys, self.queue
        safe = reason.translate({ord(c): "'" for c in '"\\'} | dict.fromkeys(range(32), " "))
        arguments: list[Argument] = [self._fence, self._engine_id, entry_id, safe, MAX_ENTRY_BYTES]
        reply = self.shard.run("bury", [self._key, *keys.task_keys(queue), stream], arguments)
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
        self._exchange = Packed(
            "settle_and_claim",
            [*head, keys.ageing(queue), *self.wake_keys, *self._streams],
            [self._fence, self._engine_id, self._limits.max_backlog],
        )
        self._beat = Packed("beat", [*head, *self._streams], [self._fence, self._engine_id, MAX_ENTRY_BYTES])

    def _follow(self, version: bytes | None) -> None:
        """Lanes came or went. What the call brought must not be lost over it: the next answer tells us again."""
        if version != self._version:
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


def _given(claim: list[Any], streams: Sequence[str], before: int) -> Given:
    position = claim[0] - before - 1
    tier = TIERS[position % len(TIERS)]
    return Given(streams[position], tier, claim[1].decode(), claim[2], claim[3], claim[4], claim[5:])
