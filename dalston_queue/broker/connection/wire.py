"""A connection without redis-py's machinery: bytes out, replies in. redis-py opens it (TLS, ACL, Sentinel, cluster).

Half of the client's cost of a small call is in the layers between the caller and the socket. Whoever uses a wire packs
its commands itself, reads one reply per command, and drops the wire after any error.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

import hiredis
import redis
from redis._parsers.base import BaseParser
from redis.connection import ConnectionInterface

CHUNK = 65536
LOOK_S = 0.002
"""How long to look for a reply before sleeping until it is there: on an idle machine, waking up takes longer than what
the server does for a task."""
GIVE_WAY_EVERY_S = 0.00004
"""Before its first look, and then this often, a looker gives way to whoever wants its core: it may be the server. After
each look would be too often, since a process of idle priority would get a turn each time."""
ASIDE_S = 0.0005
"""Longer than a server on the same core takes for a task. Who keeps us from looking for longer is another process on
this core or a thread of our own: then the kernel wakes a sleeper sooner than it lets a looker go on."""
MOST_PATIENCE = 1024
"""After looking in vain, or being put aside, the next call sleeps at once; if the look after it fails, too, the next
two do, then four, … up to this many."""

_give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


class Wire:
    def __init__(self, connection: ConnectionInterface, *, look: bool = False) -> None:
        """`look`: look for a reply before sleeping. For one thread that mostly asks: others would have to share the
        interpreter with it."""
        self._connection = connection
        # redis-py has no public way to the socket of a connection
        self.socket: socket.socket = connection._get_socket()  # type: ignore[attr-defined]  # noqa: SLF001
        # the same exception classes as redis-py's, as values: an error may stand inside of a reply
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error)
        self._sendall, self._recv = self.socket.sendall, self.socket.recv
        self._may_look = look and not isinstance(self.socket, ssl.SSLSocket)  # poll() can't see what TLS has read
        if self._may_look:
            poller = select.poll()
            poller.register(self.socket, select.POLLIN)
            self._poll = poller.poll
        self._sleeps = 0  # calls that are not worth a look
        self._patience = 1  # how many calls will sleep after the next look in vain
        self._usual_s = self.socket.gettimeout()
        self.set_timeout(self._usual_s)

    def set_timeout(self, seconds: float | None) -> None:
        """How long a send or a read may take. By the kernel where we can: Python's own way costs a poll() per call."""
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.settimeout(seconds)
            return
        whole, part = divmod(seconds or 0.0, 1)
        packed = struct.pack("ll", int(whole), int(part * 1e6))
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)

    def ask(self, packed: bytes) -> Any:
        """Send a command and read its reply, which most often comes in one piece: then nothing else is called."""
        try:
            self._sendall(packed)
            if not self.looks:
                self._sleeps -= 1
            elif self._look():
                self._patience = 1
            else:
                self._sleeps, self._patience = self._patience, min(2 * self._patience, MOST_PATIENCE)
            received = self._recv(CHUNK)
            reader = self._reader
            reader.feed(received)
            reply = reader.gets()
        except (OSError, hiredis.ProtocolError) as error:
            raise _translated(error) from error
        return self.read(ended=not received) if reply is False else reply

    @property
    def looks(self) -> bool:
        """Whether the next reply is looked for without sleeping."""
        return self._may_look and self._sleeps <= 0

    def _look(self) -> bool:
        """Whether the reply came while it was worth looking for. With poll(): a recv in vain takes the lock of the
        socket, which the server's write needs, and raises."""
        is_there, clock = self._poll, time.perf_counter
        give_way_at = now = clock()
        end = now + LOOK_S
        while now < end:
            before = now
            if now >= give_way_at:
                _give_way()
                give_way_at = clock() + GIVE_WAY_EVERY_S
            elif is_there(0):  # not right after giving way: first see whether we were put aside
                return True
            now = clock()
            if now - before > ASIDE_S:
                break
        return False

    def send(self, packed: bytes) -> None:
        try:
            self._sendall(packed)
        except OSError as error:
            raise _translated(error) from error

    def read(self, ended: bool = False) -> Any:
        """The next reply; an error reply is returned."""
        reader = self._reader
        try:
            while (reply := reader.gets()) is False:
                received = b"" if ended else self._recv(CHUNK)
                if not received:
                    raise redis.ConnectionError("Connection closed by server.")
                reader.feed(received)
        except (OSError, hiredis.ProtocolError) as error:
            raise _translated(error) from error
        return reply

    def restore(self) -> None:
        """As redis-py had it."""
        self.socket.settimeout(self._usual_s)

    def close(self) -> None:
        self._connection.disconnect()


def _translated(error: OSError | hiredis.ProtocolError) -> redis.RedisError:
    if isinstance(error, (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)):
        return redis.TimeoutError("Timeout on the socket")
    return redis.ConnectionError(f"Error on the socket: {error}")


def encoded(argument: str | bytes | float) -> bytes:
    return argument if type(argument) is bytes else str(argument).encode()


def bulk(argument: str | bytes | float) -> bytes:
    """An argument, packed."""
    raw = encoded(argument)
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def packed(*arguments: str | bytes | float) -> bytes:
    """A whole command."""
    command: bytes = hiredis.pack_command(arguments)  # type: ignore[arg-type]  # its stub says: a tuple of one
    return command
