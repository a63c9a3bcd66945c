"""A connection without redis-py's machinery: bytes out, replies in. redis-py opens it (TLS, ACL, Sentinel, cluster).

Half of the client's cost of a small call is in the layers between the caller and the socket. Whoever uses a wire packs
its commands itself, reads one reply per command, and drops the wire after any error.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

import hiredis
import redis
from redis._parsers.base import BaseParser
from redis.connection import ConnectionInterface

CHUNK = 65536


class Wire:
    def __init__(self, connection: ConnectionInterface) -> None:
        self._connection = connection
        # redis-py has no public way to the socket of a connection
        self.socket: socket.socket = connection._get_socket()  # type: ignore[attr-defined]  # noqa: SLF001
        # the same exception classes as redis-py's, as values: an error may stand inside of a reply
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error)
        self._sendall, self._recv = self.socket.sendall, self.socket.recv
        self._usual_s = self.socket.gettimeout()
        self.timeout_s(self._usual_s)

    def timeout_s(self, seconds: float | None) -> None:
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
            received = self._recv(CHUNK)
        except OSError as error:
            raise _translated(error) from error
        reader = self._reader
        reader.feed(received)
        reply = reader.gets()
        return self.read(ended=not received) if reply is False else reply

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
        except OSError as error:
            raise _translated(error) from error
        except hiredis.ProtocolError as error:
            raise redis.ConnectionError(f"Protocol error: {error}") from error
        return reply

    def restore(self) -> None:
        """As redis-py had it."""
        self.socket.settimeout(self._usual_s)

    def close(self) -> None:
        self._connection.disconnect()


def _translated(error: OSError) -> redis.RedisError:
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
    return b"*%d\r\n%b" % (len(arguments), b"".join(map(bulk, arguments)))
