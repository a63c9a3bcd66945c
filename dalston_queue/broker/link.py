"""A connection of one's own, for the hot path: commands are packed once, not per call.

Packing is the largest cost of a small call in redis-py. A Packed keeps the bytes of the part that never changes
(script, keys, constant arguments); a call appends the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import ConnectionInterface
from redis.exceptions import MovedError, NoScriptError

from dalston_queue.broker.faults import translated
from dalston_queue.broker.scripts import Script, load
from dalston_queue.broker.shard import Argument, Shard


def bulk(value: Argument) -> bytes:
    raw = value if type(value) is bytes else str(value).encode()
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


class Packed:
    """A script with its keys and leading arguments, ready to send."""

    def __init__(self, name: str, keys: Sequence[str], constants: Sequence[Argument]) -> None:
        self.script: Script = load(name)
        parts: list[Argument] = ["EVALSHA", self.script.sha, len(keys), *keys, *constants]
        self._head = b"".join(map(bulk, parts))
        self._count = len(parts)

    def with_bulks(self, bulks: Sequence[bytes]) -> bytes:
        """The command with these further arguments, each packed by bulk()."""
        return b"".join((b"*%d\r\n" % (self._count + len(bulks)), self._head, *bulks))


class Link:
    """Serial calls on one connection to the server of one key. Nothing is retried here."""

    def __init__(self, shard: Shard, key: str) -> None:
        self._shard = shard
        self._key = key
        self._connection: ConnectionInterface | None = None

    def call(self, script: Script, packed: bytes) -> Any:
        try:
            connection = self._connection
            if connection is None:
                connection = self._connection = self._shard.connection(self._key)
            try:
                connection.send_packed_command((packed,), check_health=False)
                return connection.read_response()
            except NoScriptError:
                connection.send_command("SCRIPT", "LOAD", script.source)
                connection.read_response()
                connection.send_packed_command((packed,), check_health=False)
                return connection.read_response()
        except (redis.RedisError, OSError) as error:
            self.close()
            if isinstance(error, (MovedError, redis.ReadOnlyError)):
                self._shard.moved()
            with translated(self._shard.name):
                raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None


class PooledLink(Link):
    """The same on a connection that is borrowed from the pool for each call: for a session that is taken up for one
    request only."""

    def call(self, script: Script, packed: bytes) -> Any:
        with translated(self._shard.name):
            pool = self._shard.pool(self._key)
            borrowed = self._connection = pool.get_connection()
        try:
            return super().call(script, packed)
        finally:
            self._connection = None
            pool.release(borrowed)
