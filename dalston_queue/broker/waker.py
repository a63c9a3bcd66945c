"""Sleeping until work may be there: BLPOP on the wake keys of an engine's lanes.

With one server this is one blocking call. With several (shards, or queues in different slots of a cluster) each has its
own connection with a BLPOP under way, and the first answer wakes; the others stay under way for at most their second,
so a token may go to an engine that is busy by then, and an idle one looks for itself within the second.

An engine that holds nothing sends its claim behind the BLPOP: the server runs it in the moment of the wake-up, and one
trip less lies between an append and the start.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.faults import translated
from dalston_queue.broker.session import Session
from dalston_queue.broker.shard import Shard
from dalston_queue.broker.wire import Wire, packed


class _Sleeper:
    """One blocking connection."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self._wire: Wire | None = None
        self._under_way = False

    def start(self, keys: Sequence[str], timeout: float, then: bytes = b"") -> None:
        """`then` is a command that the server runs as soon as it wakes us."""
        if self._under_way:
            return
        with translated(self.shard.name):
            if self._wire is None:
                self._wire = Wire(self.shard.connection(keys[0]))
                # the reply of a blocking command comes later than the usual socket timeout allows
                self._wire.timeout_s(timeout + 5)
            self._wire.send(packed("BLPOP", *keys, timeout) + then)
            self._under_way = True

    def finish(self) -> bool:
        """Waits for the reply; False: it timed out."""
        reply = self._read()
        self._under_way = False
        return reply is not None

    def finish_then(self) -> Any:
        """Waits for the wake-up or its timeout, and then for the reply to the command that was sent behind it."""
        self._read()
        reply = self._connected().read()  # an error is the caller's to judge: that command can be repeated
        self._under_way = False
        return reply

    def socket(self) -> socket.socket:
        return self._connected().socket

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None
        self._under_way = False

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

    def wait(self, sessions: Sequence[Session], timeout: float) -> bool:
        """True: look now. Raises Unavailable."""
        groups = _groups(sessions)
        sleepers = {name: self._sleeper(name, shard) for name, (shard, _) in groups.items()}
        try:
            for name, sleeper in sleepers.items():
                sleeper.start(groups[name][1], timeout)
            if len(sleepers) == 1:
                return next(iter(sleepers.values())).finish()
            return _first(list(sleepers.values()), timeout)
        except BaseException:
            self.close()
            raise

    def wait_then(self, session: Session, timeout: float, command: bytes) -> Any:
        """Sleep, and have the server run this command of the session at once when it wakes us, or when the time is
        over. Returns its reply, or the error that is its reply. Raises Unavailable."""
        ((name, (shard, keys)),) = _groups([session]).items()
        sleeper = self._sleeper(name, shard)
        try:
            sleeper.start(keys, timeout, command)
            with translated(shard.name):
                return sleeper.finish_then()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for sleeper in self._sleepers.values():
            sleeper.close()

    def _sleeper(self, name: tuple[int, str], shard: Shard) -> _Sleeper:
        return self._sleepers.setdefault(name, _Sleeper(shard))


def _groups(sessions: Sequence[Session]) -> dict[tuple[int, str], tuple[Shard, list[str]]]:
    """Keys that one BLPOP can name: those of one server, or in a cluster those of one queue."""
    groups: dict[tuple[int, str], tuple[Shard, list[str]]] = {}
    for session in sessions:
        name = (session.shard.index, session.queue if session.shard.keys.cluster else "")
        groups.setdefault(name, (session.shard, []))[1].extend(session.wake_keys)
    return groups


def _first(sleepers: list[_Sleeper], timeout: float) -> bool:
    end = time.monotonic() + timeout
    with selectors.PollSelector() as sockets:  # not select(): a web process has more than 1024 files open
        for sleeper in sleepers:
            sockets.register(sleeper.socket(), selectors.EVENT_READ, sleeper)
        while True:
            ready = [key.data for key, _ in sockets.select(max(0.0, end - time.monotonic()))]
            done = [sleeper.finish() for sleeper in ready]
            for sleeper in ready:
                sockets.unregister(sleeper.socket())
            if any(done) or not ready or not sockets.get_map():
                return any(done)
