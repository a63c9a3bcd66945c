"""A connection of one's own, for the hot path: commands are packed once, not per call.

Packing is the largest cost of a small call in redis-py. A Packed keeps the bytes of the part that never changes
(script, keys, constant arguments); a call appends the rest, or fills it into a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import MovedError, NoScriptError

from dalston_queue.broker.connection.faults import translated
from dalston_queue.broker.connection.scripts import Script, load
from dalston_queue.broker.connection.shard import Argument, Shard
from dalston_queue.broker.connection.wire import Wire, bulk, packed

ANY = None
"""In a form: an argument that each call gives."""


class Packed:
    """A script with its keys and leading arguments, ready to send."""

    def __init__(self, name: str, keys: Sequence[str], constants: Sequence[Argument]) -> None:
        self.script: Script = load(name)
        parts: list[Argument] = ["EVALSHA", self.script.sha, len(keys), *keys, *constants]
        self._head = b"".join(map(bulk, parts))
        self._count = len(parts)

    def with_arguments(self, arguments: Sequence[bytes]) -> bytes:
        """The command with these further arguments."""
        _, rest = packed(*arguments).split(b"\n", 1)  # "*", their number, and then one after the other
        return b"*%d\r\n%b%b" % (self._count + len(arguments), self._head, rest)

    def form(self, arguments: Sequence[bytes | None]) -> bytes:
        """The whole command as a format for bytes: it takes the length and the value of each argument that is ANY."""
        known = b"*%d\r\n%b" % (self._count + len(arguments), self._head)
        rest = [b"$%d\r\n%b\r\n" if word is ANY else _literal(bulk(word)) for word in arguments]
        return _literal(known) + b"".join(rest)


def _literal(text: bytes) -> bytes:
    """For a format: a key or an engine's name may have a % in it."""
    return text.replace(b"%", b"%%")


class Link:
    """Serial calls on one connection to the server of one key. Nothing is retried here."""

    def __init__(self, shard: Shard, key: str) -> None:
        self._shard = shard
        self._key = key
        self._wire: Wire | None = None

    def call(self, script: Script, command: bytes) -> Any:
        try:
            wire = self._wire or self.wire()
            reply = wire.ask(command)
            if type(reply) is list:
                return reply
            if isinstance(reply, NoScriptError):
                wire.ask(packed("SCRIPT", "LOAD", script.source))
                reply = wire.ask(command)
            if isinstance(reply, Exception):
                raise reply  # noqa: TRY301 - a function more would be in the way of each call
            return reply
        except (redis.RedisError, OSError) as error:
            self.close()
            if isinstance(error, (MovedError, redis.ReadOnlyError)):
                self._shard.moved()
            with translated(self._shard.name):
                raise
        except BaseException:  # a Ctrl-C, say: the reply that is still to come would be taken for that of the next call
            self.close()
            raise

    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(self._shard.connection(self._key), look=True)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


class PooledLink(Link):
    """The same on a connection that is borrowed from the pool for each call: for a session that is taken up for one
    request only."""

    def call(self, script: Script, command: bytes) -> Any:
        with self._shard.asking():
            return self._borrow(script, command)

    def _borrow(self, script: Script, command: bytes) -> Any:
        with translated(self._shard.name):
            pool = self._shard.pool(self._key)
            borrowed = pool.get_connection()
        self._wire = Wire(borrowed)
        try:
            return super().call(script, command)
        finally:
            if self._wire is not None:  # it lives, so the pool may have it as it was
                self._wire.restore()
                self._wire = None
            pool.release(borrowed)
