"""A shard: one Redis deployment (a server, a Sentinel set, a cluster) and the calls to it.

Nothing is retried blindly: a call whose reply is lost raises Unavailable, and the caller decides to repeat it.
Every script can be repeated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import redis
from redis.cluster import RedisCluster
from redis.connection import ConnectionInterface, ConnectionPool
from redis.exceptions import MovedError, NoScriptError

from dalston_queue.broker.connection.breaker import Breaker
from dalston_queue.broker.connection.faults import is_wrong_type, translated
from dalston_queue.broker.connection.scripts import Script, load
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.validate import is_queue_name, names

log = logging.getLogger(__name__)
Argument = str | bytes | int | float
Client = redis.Redis | RedisCluster


class Call(msgspec.Struct, frozen=True):
    """A command, and the key that decides which server of a cluster it goes to."""

    key: str
    arguments: tuple[Argument, ...]
    script: Script | None = None


def command(name: str, key: str, *arguments: Argument) -> Call:
    return Call(key, (name, key, *arguments))


def script(name: str, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Call:
    loaded = load(name)
    return Call(keys[0], ("EVALSHA", loaded.sha, len(keys), *keys, *arguments), loaded)


def pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """A reply of alternating names and values."""
    return zip(flat[::2], flat[1::2], strict=True)


def milliseconds(time: tuple[bytes, bytes]) -> int:
    """The reply of TIME."""
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000


class Shard:
    def __init__(
        self,
        index: int,
        name: str,
        keys: Keys,
        make_client: Callable[[], Client],
        before_each: Callable[[], None] | None = None,
    ) -> None:
        """before_each: called before a call that may wait; with it, the shard has a circuit breaker (web processes)."""
        self.index = index
        self.name = name  # the URL without its password: for messages and logs
        self.keys = keys
        self._make_client = make_client
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._before_each = before_each
        self._breaker = Breaker()
        self._invalid_names: set[str] = set()  # members of `stages` that are no queue names; each is logged once
        self._wrong_type: set[str] = set()  # keys of another type; each is logged once

    @property
    def client(self) -> Client:
        return self._new_client() if self._client is None else self._client

    def _new_client(self) -> Client:
        with translated(self.name):
            made = self._make_client()  # a cluster client asks for the topology here
        with self._lock:
            # Two threads may both get here first; the second drops its client. If it replaced the first one, which is
            # closed then, it would end the calls that are under way.
            if self._client is None:
                self._client = made
            return self._client

    def run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        """Run one script."""
        return self.call(script(name, keys, arguments))

    def command(self, name: str, key: str, *arguments: Argument) -> Any:
        return self.call(command(name, key, *arguments))

    def now_ms(self) -> int:
        """The server's clock. A cluster has several; the one that serves the home keys is as good as any."""
        return milliseconds(self.call(self.clock))

    @property
    def clock(self) -> Call:
        """The call of now_ms(), for a pipeline."""
        return Call(self.keys.stages(), ("TIME",))

    def call(self, call: Call) -> Any:
        (reply,) = self.all([call])
        return reply

    def all(self, calls: Sequence[Call]) -> list[Any]:
        """Like calls(), but the first error is raised."""
        return [self.checked(reply) for reply in self.calls(calls)]

    def readable(self, calls: Sequence[Call]) -> list[Any]:
        """Like all(), but None where a key has another type than ours: one queue, engine or node stops no other. The
        key is logged once."""
        found: list[Any] = []
        for call, reply in zip(calls, self.calls(calls), strict=True):
            wrong_type = is_wrong_type(reply)
            if wrong_type and call.key not in self._wrong_type:
                log.warning("%s, or a key beside it, has another type than ours, and is skipped", call.key)
            (self._wrong_type.add if wrong_type else self._wrong_type.discard)(call.key)
            found.append(None if wrong_type else self.checked(reply))
        return found

    def checked(self, reply: Any) -> Any:
        """A reply of calls(), raised if it is an error."""
        if isinstance(reply, Exception):
            with translated(self.name):
                raise reply
        return reply

    def names(self, key: str) -> list[str]:
        """The members of a set, in order."""
        return names(self.command("SMEMBERS", key))

    def queues(self) -> list[str]:
        """The queues that exist here, in order."""
        return self.names_of_queues(self.command("SMEMBERS", self.keys.stages()))

    def names_of_queues(self, members: Iterable[bytes]) -> list[str]:
        """The members of `stages`, in order. One that is no queue name is logged once, and left out."""
        found = names(members)
        if invalid := {name for name in found if not is_queue_name(name)} - self._invalid_names:
            self._invalid_names |= invalid
            log.warning("%s has members that are no queue names: %s", self.keys.stages(), ", ".join(sorted(invalid)))
        return [name for name in found if name not in self._invalid_names]

    def calls(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls in one round trip per server. The reply of a call that failed is its exception."""
        replies: list[Any] = [None] * len(calls)
        with self._guarded():
            for pool, positions in self._by_server(calls):
                with translated(self.name):
                    self._pipeline(pool, calls, positions, replies)
        return replies

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if self._before_each is None:
            yield
            return
        if not self._breaker.allows():
            raise Unavailable(f"{self.name} did not answer a moment ago; its circuit breaker is open")
        self._before_each()
        try:
            yield
        except Unavailable as error:
            if isinstance(error.__cause__, redis.TimeoutError):
                self._breaker.open()
            raise
        self._breaker.close()

    def pool(self, key: str) -> ConnectionPool:
        """The connections to the server that serves this key."""
        client = self.client
        if isinstance(client, RedisCluster):
            with translated(self.name):
                node = client.get_node_from_key(key)
                return client.get_redis_connection(node).connection_pool
        return client.connection_pool

    def connection(self, key: str, **options: Any) -> ConnectionInterface:
        """A new connection, outside of the pool, to the server that serves this key."""
        pool = self.pool(key)
        made: ConnectionInterface = pool.connection_class(**{**pool.connection_kwargs, **options})
        made.connect()  # a connection managed by Sentinel asks for the address only in connect()
        return made

    def refresh_topology(self) -> None:
        """After MOVED or READONLY: read the topology again, drop old connections."""
        client = self.client
        if isinstance(client, RedisCluster):
            with translated(self.name):
                client.nodes_manager.initialize()
        else:
            client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _by_server(self, calls: Sequence[Call]) -> list[tuple[ConnectionPool, list[int]]]:
        if not self.keys.cluster:
            return [(self.pool(""), list(range(len(calls))))] if calls else []
        groups: dict[int, tuple[ConnectionPool, list[int]]] = {}
        for position, call in enumerate(calls):
            pool = self.pool(call.key)
            groups.setdefault(id(pool), (pool, []))[1].append(position)
        return list(groups.values())

    def _pipeline(self, pool: ConnectionPool, calls: Sequence[Call], positions: list[int], replies: list[Any]) -> None:
        connection = pool.get_connection()
        try:
            packed = connection.pack_commands([calls[p].arguments for p in positions])
            connection.send_packed_command([b"".join(packed)])  # redis-py would send in pieces of 6000 bytes
            for position in positions:
                replies[position] = _read(connection)
            for position in positions:
                missing = calls[position].script
                if missing is not None and isinstance(replies[position], NoScriptError):
                    _, _sha, *rest = calls[position].arguments
                    connection.send_command("EVAL", missing.source, *rest)
                    replies[position] = _read(connection)
        except BaseException:
            connection.disconnect()  # an unread reply must not answer the next command
            raise
        finally:
            pool.release(connection)
        if any(isinstance(reply, (MovedError, redis.ReadOnlyError)) for reply in replies):
            self.refresh_topology()


class Dedicated:
    """A connection of its own to the server of one key, for the serial calls of a session and for waits.

    A session that borrows from the pool for each call runs a fifth fewer tasks. Nothing is retried here: after an error
    the connection is closed, because a reply that is still to come would answer the next call.
    """

    def __init__(self, shard: Shard, key: str) -> None:
        self._shard = shard
        self._key = key
        self._connection: ConnectionInterface | None = None

    def call(self, call: Call) -> Any:
        """Send one command and read its reply."""
        with translated(self._shard.name):
            connection = self._connection or self._connect()
            try:
                connection.send_packed_command(connection.pack_command(*call.arguments))
                try:
                    return connection.read_response()
                except NoScriptError:
                    if call.script is None:
                        raise
                    _, _sha, *rest = call.arguments
                    connection.send_command("EVAL", call.script.source, *rest)
                    return connection.read_response()
            except BaseException as error:
                self.close()
                if isinstance(error, (MovedError, redis.ReadOnlyError)):
                    self._shard.refresh_topology()
                raise

    def close(self) -> None:
        """May be called from another thread, to end the call that is under way."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def _connect(self) -> ConnectionInterface:
        self._connection = connection = self._shard.connection(self._key)
        return connection


def _read(connection: ConnectionInterface) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error
