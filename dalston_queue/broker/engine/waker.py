"""Waiting for work: BLPOP on the wake keys of an engine's lanes.

With one server this is one blocking call. With several (shards, or queues in different slots of a cluster) each has its
own connection with a pending BLPOP, and the first answer wakes. The other connections are closed before the engine goes
on: a BLPOP that stayed pending would take the token of a later task to a busy engine, while idle engines sleep.

A token that was taken and not used is pushed again: two servers may answer at once, and an engine that was woken for
one lane may fill itself from another.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redis.connection import ConnectionInterface

from dalston_queue.broker.connection.faults import translated
from dalston_queue.broker.connection.shard import Shard, command
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.engine.session import Session
from dalston_queue.broker.errors import BrokerError, Unavailable

TURN_S = 0.005
"""With several servers: how long to wait for one before the next. redis-py has no public way to wait for several at
once, and a wake-up that is this late is not felt."""
ANSWER_TIMEOUT_S = 5.0  # beyond the time that a server was asked to block for: then the server hangs


class Token(NamedTuple):
    """A wake-up token that was taken from a wake key."""

    shard: Shard
    key: str


class Claim(NamedTuple):
    """One claim of a session: for how many tasks, and what was claimed."""

    session: Session
    room: int
    claimed: Sequence[Delivery]


def unused(tokens: Iterable[Token], claims: Iterable[Claim]) -> list[Token]:
    """Tokens whose task may still wait after these claims: another engine must be woken for it. A claim that found
    less than it had room for has emptied its lanes; else one task of the token's own lane has used the token up."""
    left = list(tokens)
    for session, room, claimed in claims:
        shard, keys = session.shard, session.shard.keys
        lanes = set(session.wake_keys)
        used = Counter(keys.wake(session.queue, keys.lane_and_tier(each.stream)[0]) for each in claimed)
        kept = []
        for token in left:
            if token.shard is shard and token.key in lanes and (len(claimed) < room or used[token.key] > 0):
                used[token.key] -= 1
            else:
                kept.append(token)
        left = kept
    return left


class _Sleeper:
    """One blocking connection."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.is_pending = False
        self._connection: ConnectionInterface | None = None
        self.answer_timeout_s = 0.0

    def start(self, keys: Sequence[str], timeout: float) -> None:
        if self.is_pending:
            return
        with translated(self.shard.name):
            if self._connection is None:
                self._connection = self.shard.connection(keys[0])
            self._connection.send_command("BLPOP", *keys, timeout)
        self.answer_timeout_s = timeout + ANSWER_TIMEOUT_S
        self.is_pending = True

    def has_answered(self, seconds: float) -> bool:
        with translated(self.shard.name):
            return self._connected().can_read(seconds)

    def finish(self) -> Token | None:
        """Waits for the reply; None: the BLPOP timed out."""
        with translated(self.shard.name):
            reply = self._connected().read_response(timeout=self.answer_timeout_s)
        self.is_pending = False
        return None if reply is None else Token(self.shard, reply[0].decode())

    def close(self) -> None:
        """Also from another thread: this ends a wait."""
        connection, self._connection, self.is_pending = self._connection, None, False
        if connection is not None:
            connection.disconnect()

    def _connected(self) -> ConnectionInterface:
        if self._connection is None:
            raise Unavailable(f"{self.shard.name} does not answer: the connection was closed")
        return self._connection


class Waker:
    def __init__(self) -> None:
        self._sleepers: dict[tuple[int, str], _Sleeper] = {}
        self._tokens: deque[Token] = deque()
        self.closed = False

    def wait(self, sessions: Sequence[Session], timeout: float) -> bool:
        """True: claim now. Raises Unavailable."""
        groups = _groups(sessions)
        sleepers = [self._sleeper(name, shard) for name, (shard, _) in groups.items()]
        try:
            for sleeper, (_, keys) in zip(sleepers, groups.values(), strict=True):
                sleeper.start(keys, timeout)
            tokens = _first(sleepers)
        except BaseException:
            self.close()
            raise
        self._tokens += tokens
        return bool(tokens)

    def take_tokens(self) -> list[Token]:
        """The tokens since the last call. The caller pushes those that it doesn't use."""
        tokens = self._tokens
        return [tokens.popleft() for _ in range(len(tokens))] if tokens else []

    def keep(self, tokens: Iterable[Token]) -> None:
        """The claim that they were taken for has failed: the next one needs them."""
        self._tokens += tokens

    def close(self, *, for_good: bool = False) -> None:
        self.closed = self.closed or for_good
        for sleeper in self._sleepers.values():
            sleeper.close()

    def _sleeper(self, name: tuple[int, str], shard: Shard) -> _Sleeper:
        return self._sleepers.setdefault(name, _Sleeper(shard))


def push_tokens(tokens: Sequence[Token]) -> None:
    """Only hints: if a server does not take them, idle engines claim within the second anyway."""
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


def _first(sleepers: Sequence[_Sleeper]) -> list[Token]:
    """The tokens of the first answers; [] when all have timed out. Closes the connections that are still pending."""
    if len(sleepers) == 1:
        token = sleepers[0].finish()
        return [token] if token else []
    asleep = list(sleepers)
    tokens: list[Token] = []
    end = time.monotonic() + max(sleeper.answer_timeout_s for sleeper in sleepers)
    while asleep and not tokens:
        if time.monotonic() > end:
            raise Unavailable(f"{asleep[0].shard.name} does not answer: a wait was not ended in time")
        tokens = _answers(asleep, TURN_S)
        asleep = [sleeper for sleeper in asleep if sleeper.is_pending]
    # A token that is taken between here and the close is lost with its connection: it is only a hint, and idle engines
    # claim within the second anyway.
    tokens += _answers(asleep, 0)
    for sleeper in asleep:
        if sleeper.is_pending:
            sleeper.close()
    return tokens


def _answers(asleep: Sequence[_Sleeper], seconds: float) -> list[Token]:
    found = [sleeper.finish() for sleeper in asleep if sleeper.has_answered(seconds)]
    return [token for token in found if token]
