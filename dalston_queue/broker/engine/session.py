"""One engine's session in one queue of one shard: the fence, the sequence number and the call that has no answer yet.

Failure cases. The reply is lost: the same bytes are sent again, with the same sequence number, and the script returns
the stored answer. The session is gone (the engine was judged dead, or Redis lost it): every call is FENCED before
anything else, so a zombie can't settle or claim. Redis failed over and forgot the last calls: the script returns the
number that it knows, and the session goes on from there; the next renewal delivers again what was claimed in between.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dalston_queue.broker.connection.shard import Argument, Call, Dedicated, Shard, pairs, script
from dalston_queue.broker.engine.delivery import Delivery, Settlement
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.operations.lanes import Lanes, lane_field, read_lanes
from dalston_queue.broker.protocol.messages import MAX_ENTRY_BYTES
from dalston_queue.broker.protocol.types import TIERS, Settled, Tier

MAX_TRIES = 20
"""Calls with the same settlements, when a failover or overlapping calls of one worker use up the sequence number."""


class Answer(msgspec.Struct):
    """What calls of a session returned."""

    settled: dict[Delivery, Settled] = {}  # msgspec makes new ones for each answer
    claimed: list[Delivery] = []
    unreadable: list[tuple[str, str]] = []  # stream, entry id: pending for us until dead_lettered


class _Unanswered(msgspec.Struct):
    """A call that was sent, what it settles, and the keys that its answer will name by index."""

    call: Call
    settlements: Sequence[Settlement]
    keys: Sequence[str]


class Limits(msgspec.Struct, frozen=True):
    max_backlog: int = 50_000
    max_suspects: int = 2


class Session:
    def __init__(self, shard: Shard, queue: str, engine_id: str, capabilities: frozenset[str], limits: Limits) -> None:
        self.shard = shard
        self.queue = queue
        self._engine_id = engine_id
        self._engine = engine_id.encode()
        self.capabilities = capabilities
        self._limits = limits
        self._key = shard.keys.session(queue, engine_id)
        self._connection = Dedicated(shard, self._key)
        self._send: Callable[[Call], Any] = self._connection.call
        self._fence = ""
        self._number = 0
        self._unanswered: _Unanswered | None = None
        self._answer = Answer()  # of a repeated call: kept here if the next call gets no reply
        self._use(Lanes(None, ()))

    # opening and closing

    def open(self) -> None:
        self._fence = secrets.token_hex(8)
        self._number = 0
        self._unanswered = None
        self._answer = Answer()
        keys = self.shard.keys
        # the queue exists from now on, even before its first task: the judge must see the engines that serve it
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
        """Settle these and claim up to `free`. alone: the engine holds nothing else, so a suspect may be claimed."""
        answer = self._answer
        if self._unanswered is not None:
            sent = self._unanswered
            self._read(sent, self._send(sent.call), answer, repeated=True)
            has_suspect = any(delivery.tier is Tier.SUSPECT for delivery in answer.claimed)
            free = 0 if has_suspect else free - len(answer.claimed)  # a suspect runs alone
            settlements = [settlement for settlement in settlements if settlement[0] not in answer.settled]
            alone = alone and not answer.claimed
        if settlements or free > 0:
            if len(settlements) > 1:
                settlements = sorted(settlements, key=_stream_of)
            for _ in range(MAX_TRIES):
                call = self._call(settlements, free, alone)
                self._unanswered = sent = _Unanswered(call, settlements, self._exchange_keys)
                self._read(sent, self._send(call), answer, repeated=False)
                if not settlements or settlements[0][0] in answer.settled:
                    break  # else the call only learnt the sequence number
            else:
                raise Unavailable(f"{MAX_TRIES} calls of {self._engine_id} in queue {self.queue} were out of order")
        self._answer = Answer()
        return answer

    def _call(self, settlements: Sequence[Settlement], free: int, alone: bool) -> Call:
        """Settlements are grouped by stream."""
        limits, lanes = self._limits, self._lane_fields
        suspects = limits.max_suspects if alone else 0
        arguments: list[Argument] = [self._fence, self._engine_id, self._number + 1, max(free, 0), suspects]
        arguments += (limits.max_backlog, len(lanes), len(settlements))
        ended = [delivery for delivery, _, _ in settlements]
        streams = Counter([delivery.stream for delivery in ended])
        arguments.append(" ".join([f"{self._index(self._exchange_keys, each)}:{streams[each]}" for each in streams]))
        arguments.append(" ".join([kind.removeprefix("task.") for _, kind, _ in settlements]))
        arguments.append(b"\n".join([delivery.event_head(kind) for delivery, kind, _ in settlements]))
        arguments.append(b"\n".join([body for _, _, body in settlements]))
        arguments += lanes
        arguments += [delivery.task for delivery in ended]
        arguments += [delivery.start for delivery in ended]
        arguments += [delivery.entry for delivery in ended]
        return script("settle_and_claim", self._exchange_keys, arguments)

    def _read(self, sent: _Unanswered, reply: Any, answer: Answer, repeated: bool) -> None:
        status = reply[0]
        if status == b"OK":
            _, version, codes, now, unreadable, claims = reply
            answer.claimed += self._deliveries(claims, sent.keys, int(now))
            answer.unreadable += [(sent.keys[index - 1], entry.decode()) for index, entry in pairs(unreadable)]
        elif status == b"AGAIN" and not repeated:
            # we never sent this number: a process that resumed the same session did, and its answer is not for us
            self._number += 1
            self._unanswered = None
            return
        elif status == b"AGAIN":
            # the call ran, and its reply got lost: a renewal delivers again what it claimed
            _, version, codes, entries = reply
            lost = set(entries.split())
            _, again = self.renew((), find_missing=True)
            answer.claimed += [delivery for delivery in again if delivery.entry in lost]
        elif status == b"SEQUENCE":
            # a failover forgot our last calls: go on from what Redis knows
            self._number = int(reply[1])
            self._unanswered = None
            return
        else:
            raise self._fenced()
        self._number += 1
        self._unanswered = None
        for (delivery, _, _), code in zip(sent.settlements, codes, strict=True):
            answer.settled[delivery] = Settled.ACCEPTED if code == ord("1") else Settled.LOST
        if version != self._version:
            self._follow()

    def _deliveries(self, claims: list[Any], keys: Sequence[str], now_ms: int = 0) -> list[Delivery]:
        """From the index of a stream in `keys` and the lines of a claim, in turn."""
        found = []
        for index, claim in pairs(claims):
            stream = keys[index - 1]
            tier = (
                self._tiers.get(stream) or self.shard.keys.lane_and_tier(stream)[1]
            )  # the lanes may have changed since
            found.append(Delivery(self, claim, stream, tier, self._engine, now_ms))
        return found

    # while tasks run

    def renew(
        self, held: Sequence[tuple[str, int, str, str, bytes]], find_missing: bool
    ) -> tuple[list[bytes], list[Delivery]]:
        """held: task, attempt, stream, entry, JSON progress. Returns an answer per task, and with find_missing the
        deliveries of this engine that it does not hold."""
        arguments: list[Argument] = [self._fence, self._engine_id, MAX_ENTRY_BYTES, int(find_missing)]
        for task_id, attempt, stream, entry_id, progress in held:
            arguments += (task_id, attempt, self._index(self._renew_keys, stream), entry_id, progress)
        reply = self._send(script("renew", self._renew_keys, arguments))
        if reply[0] != b"OK":
            raise self._fenced()
        _, version, codes, again = reply
        missing = self._deliveries(again, self._renew_keys)
        if version != self._version:
            self._follow()
        return codes, missing

    def release(self, held: Sequence[tuple[str, int, str]], body: bytes) -> list[bool]:
        keys, queue = self.shard.keys, self.queue
        names = [self._key, *keys.task_keys(queue), keys.lanes(queue), *self.wake_keys, *self._streams]
        arguments: list[Argument] = [self._fence, self._engine_id, len(self._readable), body]
        arguments += map(lane_field, self._readable)
        for task_id, attempt, stream in held:
            arguments += (task_id, attempt, self._index(names, stream))
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
        self._readable = lanes.readable_by(self.capabilities)
        self._streams = [key for lane in self._readable for key in keys.lane(queue, lane)]
        self._tiers = dict(zip(self._streams, TIERS * len(self._readable), strict=True))
        head = [self._key, *keys.task_keys(queue), keys.lanes(queue)]
        suspects = [keys.stream(queue, lane, Tier.SUSPECT) for lane in lanes.capabilities if lane not in self._readable]
        self._exchange_keys = [*head, *self.wake_keys, *self._streams, *suspects]
        self._renew_keys = [*head, *self._streams]
        self._lane_fields = [lane_field(lane) for lane in self._readable]

    def _follow(self) -> None:
        """Lanes came or went. An error must not lose the answer of the call: the next answer has the version again."""
        with contextlib.suppress(Unavailable):
            self.refresh_lanes()

    def _index(self, keys: Sequence[str], stream: str) -> int:
        """In KEYS of a script. 1, the session, for a stream that we do not read any more: the script answers "lost"."""
        return keys.index(stream) + 1 if stream in self._tiers else 1

    def _fenced(self) -> Fenced:
        self._unanswered = None
        return Fenced(
            f"the session of {self._engine_id} in queue {self.queue} was ended: it was judged dead, or Redis lost it. "
            "Its tasks run elsewhere; drop them and open a new session"
        )


def _stream_of(settlement: Settlement) -> str:
    return settlement[0].stream
