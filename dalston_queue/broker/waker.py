"""Sleeping until work may be there: BLPOP on the wake keys of an engine's lanes.

With one server this is one blocking call. With several (shards, or queues in different slots of a cluster) each has its
own connection with a BLPOP under way, and the first answer wakes; the others stay under way for at most their second,
so a token may go to an engine that is busy by then, and an idle one looks for itself within the second.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

from redis.connection import ConnectionInterface

from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.faults import translated
from dalston_queue.broker.session import Session
from dalston_queue.broker.shard import Shard


class _Sleeper:
    """One blocking connection."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self._connection: ConnectionInterface | None = None
        self._under_way = False

    def start(self, keys: Sequence[str], timeout: float) -> None:
        if self._under_way:
            return
        with translated(self.shard.name):
            if self._connection is None:
                # the reply of a blocking command comes later than the usual socket timeout allows
                self._connection = self.shard.connection(keys[0], socket_timeout=timeout + 5)
            self._connection.send_command("BLPOP", *keys, timeout)
            self._under_way = True

    def finish(self) -> bool:
        """Waits for the reply; False: it timed out."""
        with translated(self.shard.name):
            reply = self._connected().read_response()
        self._under_way = False
        return reply is not None

    def socket(self) -> socket.socket:
        # redis-py has no public way to wait for several connections at once
        found: socket.socket = self._connected()._get_socket()  # type: ignore[attr-defined]  # noqa: SLF001
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
        self._connection = None
        self._under_way = False

    def _connected(self) -> ConnectionInterface:
        if self._connection is None:
            raise Unavailable(f"{self.shard.name} does not answer: the connection was closed")
        return self._connection


class Waker:
    def __init__(self) -> None:
        self._sleepers: dict[tuple[int, str], _Sleeper] = {}

    def wait(self, sessions: Sequence[Session], timeout: float) -> bool:
        """True: look now. Raises Unavailable."""
        groups = _groups(sessions)
        for name, (shard, _) in groups.items():
            self._sleepers.setdefault(name, _Sleeper(shard))
        sleepers = {name: self._sleepers[name] for name in groups}
        try:
            for name, sleeper in sleepers.items():
                sleeper.start(groups[name][1], timeout)
            if len(sleepers) == 1:
                return next(iter(sleepers.values())).finish()
            return _first(list(sleepers.values()), timeout)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for sleeper in self._sleepers.values():
            sleeper.close()


def _groups(sessions: Sequence[Session]) -> dict[tuple[int, str], tuple[Shard, list[str]]]:
    """Keys that one BLPOP can name: those of one server, or in a cluster those of one queue."""
    groups: dict[tuple[int, str], tuple[Shard, list[str]]] = {}
    for session in sessions:
        name = (session.shard.index, session.queue if session.shard.keys.cluster else "")
        groups.setdefault(name, (session.shard, []))[1].extend(session.wake_keys)
    return groups


def _first(sleepers: list[_Sleeper], timeout: float) -> bool:
    end = time.monotonic() + timeout
    while True:
        ready, _, _ = select.select([s.socket() for s in sleepers], [], [], max(0.0, end - time.monotonic()))
        done = [sleeper.finish() for sleeper in sleepers if sleeper.socket() in ready]
        if any(done) or not ready or len(done) == len(sleepers):
            return any(done)
        sleepers = [sleeper for sleeper in sleepers if sleeper.socket() not in ready]
