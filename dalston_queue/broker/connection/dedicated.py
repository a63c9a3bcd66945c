"""A connection of its own to the server of one key, for the serial calls of a session and for waits.

A session that borrows from the pool for each call runs a fifth fewer tasks. Nothing is retried here: after an error the
connection is closed, because a reply that is still to come would answer the next call.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.connection import ConnectionInterface
from redis.exceptions import MovedError, NoScriptError

from dalston_queue.broker.connection.faults import translated
from dalston_queue.broker.connection.shard import Call, Shard


class Dedicated:
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
                    self._shard.moved()
                raise

    def close(self) -> None:
        """Also from another thread: it ends the call that is under way."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def _connect(self) -> ConnectionInterface:
        self._connection = connection = self._shard.connection(self._key)
        return connection
