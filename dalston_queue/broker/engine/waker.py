"""Sleeping until work may be there: BLPOP on the wake keys of an engine's lanes.

With one server this is one blocking call. With several (shards, or queues in different slots of a cluster) each has its
own connection with a BLPOP under way, and the first answer wakes. The others are then called off (CLIENT UNBLOCK)
before the engine goes on: one that stayed under way would take the token of a later task to an engine that is busy by
then, while idle ones sleep on.

A token that was taken and not used is given back: two servers may answer at once, and an engine that was woken for one
lane may fill itself from another.

An engine that holds nothing sends its claim behind the BLPOP: the server runs it in the moment of the wake-up, and one
trip less lies between an append and the start.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dalston_queue.broker.connection.faults import translated
from dalston_queue.broker.connection.shard import Call, Shard, command
from dalston_queue.broker.connection.wire import Wire, packed
from dalston_queue.broker.engine.given import Given
from dalston_queue.broker.engine.session import Session
from dalston_queue.broker.errors import BrokerError, Unavailable

CALL_OFF_EVERY_S = 0.002  # a BLPOP may reach its server after the command that calls it off
CALL_OFF_S = 2.0  # longer than any sleep: then its server does not answer


class Token(NamedTuple):
    """One that was taken from a wake key."""

    shard: Shard
    key: str


class Looked(NamedTuple):
    """One look into the lanes of a session: for how many tasks, and what it brought."""

    session: Session
    room: int
    given: Sequence[Given]


def unused(tokens: Iterable[Token], looks: Iterable[Looked]) -> list[Token]:
    """Tokens whose work may still be there after these looks: somebody else must be woken for it. A look that found
    less than it had room for has emptied its lanes; else one task of the token's own lane has used it up."""
    left = list(tokens)
    for session, room, given in looks:
        shard, keys = session.shard, session.shard.keys
        lanes = set(session.wake_keys)
        used = Counter(keys.wake(session.queue, keys.place_of(each.stream)[0]) for each in given)
        kept = []
        for token in left:
            if token.shard is shard and token.key in lanes and (len(given) < room or used[token.key] > 0):
                used[token.key] -= 1
            else:
                kept.append(token)
        left = kept
    return left


class _Sleeper:
    """One blocking connection."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.under_way = False
        self._wire: Wire | None = None
        self._key = ""
        self._client_id = 0

    def start(self, keys: Sequence[str], timeout: float, then: bytes = b"") -> None:
        """`then` is a command that the server runs as soon as it wakes us."""
        if self.under_way:
            return
        with translated(self.shard.name):
            if self._wire is None:
                self._key = keys[0]
                self._wire = Wire(self.shard.connection(self._key))
                # the reply of a blocking command comes later than the usual socket timeout allows
                self._wire.set_timeout(timeout + 5)
                self._client_id = self._wire.ask(packed("CLIENT", "ID"))
            self._wire.send(packed("BLPOP", *keys, timeout) + then)
            self.under_way = True

    def finish(self) -> Token | None:
        """Waits for the reply; None: it timed out."""
        reply = self._read()
        self.under_way = False
        return None if reply is None else Token(self.shard, reply[0].decode())

    def finish_then(self) -> tuple[Token | None, Any]:
        """Waits for the wake-up or its timeout, and then for the reply to the command that was sent behind it."""
        taken = self.finish()
        self.under_way = True
        reply = self._connected().read()  # an error is the caller's to judge: that command can be repeated
        self.under_way = False
        return taken, reply

    def call_off(self) -> Call:
        """The command, for another connection to the same server."""
        return Call(self._key, ("CLIENT", "UNBLOCK", self._client_id))

    def socket(self) -> socket.socket:
        return self._connected().socket

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None
        self.under_way = False

    def _read(self) -> Any:
        with translated(self.shard.name):
            reply = self._connected().read()
            if isinstance(reply, Exception):
                raise reply
        return reply

    def _connected(self) -> Wire:
        if self._wire is None:
            raise Unavailable(f"{self.shard.name} does not answer: the connection was closed")
        return self._wire


class Waker:
    def __init__(self) -> None:
        self._sleepers: dict[tuple[int, str], _Sleeper] = {}
        self._tokens: deque[Token] = deque()

    def wait(self, sessions: Sequence[Session], timeout: float) -> bool:
        """True: look now. Raises Unavailable."""
        groups = _groups(sessions)
        sleepers = [self._sleeper(name, shard) for name, (shard, _) in groups.items()]
        try:
            for sleeper, (_, keys) in zip(sleepers, groups.values(), strict=True):
                sleeper.start(keys, timeout)
            found = [sleepers[0].finish()] if len(sleepers) == 1 else _first(sleepers, timeout)
            tokens = [token for token in found if token]
            self._tokens += tokens
        except BaseException:
            self.close()
            raise
        if len(sleepers) > 1:
            self._tokens += _call_off(sleepers)
        return bool(tokens)

    def wait_then(self, session: Session, timeout: float, then: bytes) -> Any:
        """Sleep, and have the server run `then`, a command of the session, at once when it wakes us or the time is
        over. Returns its reply, or the error that is its reply. Raises Unavailable."""
        ((name, (shard, keys)),) = _groups([session]).items()
        sleeper = self._sleeper(name, shard)
        try:
            sleeper.start(keys, timeout, then)
            with translated(shard.name):
                token, reply = sleeper.finish_then()
        except BaseException:
            self.close()
            raise
        if token:
            self._tokens.append(token)
        return reply

    def take_tokens(self) -> list[Token]:
        """Those that woke us since they were last taken. Whoever takes them gives back what it can't use."""
        tokens = self._tokens
        return [tokens.popleft() for _ in range(len(tokens))] if tokens else []

    def keep(self, tokens: Iterable[Token]) -> None:
        """The look that they were taken for has failed: the next one needs them."""
        self._tokens += tokens

    def close(self) -> None:
        for sleeper in self._sleepers.values():
            sleeper.close()

    def _sleeper(self, name: tuple[int, str], shard: Shard) -> _Sleeper:
        return self._sleepers.setdefault(name, _Sleeper(shard))


def give_back(tokens: Sequence[Token]) -> None:
    """Only hints: if a server does not take them, engines look for themselves within the second."""
    for shard in {token.shard for token in tokens}:
        with contextlib.suppress(BrokerError):
            shard.calls([command("RPUSH", token.key, 1) for token in tokens if token.shard is shard])


def _groups(sessions: Sequence[Session]) -> dict[tuple[int, str], tuple[Shard, list[str]]]:
    """Keys that one BLPOP can name: those of one server, or in a cluster those of one queue."""
    groups: dict[tuple[int, str], tuple[Shard, list[str]]] = {}
    for session in sessions:
        name = (session.shard.index, session.queue if session.shard.keys.cluster else "")
        groups.setdefault(name, (session.shard, []))[1].extend(session.wake_keys)
    return groups


def _first(sleepers: Sequence[_Sleeper], timeout: float) -> list[Token | None]:
    """Until one is woken, or none is asleep any more."""
    end = time.monotonic() + timeout
    while True:
        asleep = [sleeper for sleeper in sleepers if sleeper.under_way]
        found = _answers(asleep, max(0.0, end - time.monotonic()))
        if any(found) or not found:
            return found


def _call_off(sleepers: Sequence[_Sleeper]) -> list[Token]:
    """End the sleep of those that were not woken. Returns the tokens that they took in the last moment."""
    tokens: list[Token] = []
    for shard in {sleeper.shard for sleeper in sleepers if sleeper.under_way}:
        asleep = [sleeper for sleeper in sleepers if sleeper.shard is shard and sleeper.under_way]
        end = time.monotonic() + CALL_OFF_S
        try:
            while asleep and time.monotonic() < end:
                replies = shard.calls([sleeper.call_off() for sleeper in asleep])
                # a server that forbids it lets its sleeper sleep on
                asleep = [s for s, reply in zip(asleep, replies, strict=True) if not isinstance(reply, Exception)]
                tokens += [token for token in _answers(asleep, CALL_OFF_EVERY_S) if token]
                asleep = [sleeper for sleeper in asleep if sleeper.under_way]
        except BrokerError:
            pass  # it is away, and keeps us no longer: whoever asks it next hears of it
        for sleeper in asleep:
            sleeper.close()
    return tokens


def _answers(asleep: Sequence[_Sleeper], seconds: float) -> list[Token | None]:
    """Of those that answer first; [] if none does in this time."""
    with selectors.PollSelector() as sockets:  # not select(): a web process has more than 1024 files open
        for sleeper in asleep:
            sockets.register(sleeper.socket(), selectors.EVENT_READ, sleeper)
        return [key.data.finish() for key, _ in sockets.select(seconds)] if asleep else []
