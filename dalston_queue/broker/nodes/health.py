"""The health probe of an engine: where it listens, and the question of its supervisor.

The socket is an abstract one of Unix, named after the engine. The kernel tells each side who the other one is: only the
same user and root get an answer, and an answer of another process than the engine counts as none.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time

import msgspec

from dalston_queue.broker.nodes.reports import HealthReport

MAX_ANSWER_BYTES = 64 * 1024
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def address(engine_id: str) -> str:
    """Of any length of the id; the leading zero makes it abstract."""
    return "\0dalston-health-" + hashlib.blake2s(engine_id.encode(), digest_size=16).hexdigest()


def ask_health(engine_id: str, group: int, timeout_s: float) -> HealthReport:
    """The answer of an engine whose process group is `group`. Raises OSError and ValueError."""
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(timeout_s)
        connection.connect(address(engine_id))
        if os.getpgid(peer(connection)[0]) != group:
            raise ValueError("another program answers, not the engine")
        answer = b""
        while part := connection.recv(MAX_ANSWER_BYTES):
            answer += part
            left = deadline - time.monotonic()
            if left <= 0 or len(answer) > MAX_ANSWER_BYTES:
                raise TimeoutError("its answer takes too long")
            connection.settimeout(left)
    return msgspec.json.decode(answer, type=HealthReport)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of the other end, as the kernel knows them."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid
