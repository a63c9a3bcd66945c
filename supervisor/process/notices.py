"""The sd_notify socket of the engines. The kernel names the sender of a datagram, so no process can forge it."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
MAX_PER_ROUND = 500
MAX_DATAGRAM_BYTES = 64 << 10
MAX_PATH_BYTES = 100  # of the 108 in sockaddr_un


@dataclass(frozen=True, slots=True)
class Notice:
    """One datagram: its sender and its assignments."""

    pid: int
    fields: dict[str, str]


class NoticeSocket:
    """Bound for the life of the supervisor; its path is every child's NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self._folder: Path | None = None
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            self._folder = Path(tempfile.mkdtemp(prefix="dalston-"))  # a deep state dir is no reason to fail
            path = self._folder / path.name
        path.unlink(missing_ok=True)
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(path))

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> list[Notice]:
        """Arrived datagrams, at most MAX_PER_ROUND: a process that never stops sending must not starve the others."""
        notices: list[Notice] = []
        for _ in range(MAX_PER_ROUND):
            try:
                data, ancillary, _, _ = self.socket.recvmsg(MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                break
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                    pid = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
                    notices.append(Notice(pid, _fields(data)))
        return notices

    def close(self) -> None:
        self.socket.close()
        self.path.unlink(missing_ok=True)
        if self._folder is not None:
            self._folder.rmdir()


def _fields(data: bytes) -> dict[str, str]:
    lines = data.decode("utf-8", "replace").splitlines()
    return {name: value for name, found, value in (line.partition("=") for line in lines) if found}
