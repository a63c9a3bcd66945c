"""The sd_notify socket of the engines. The kernel names the sender of a datagram: no process speaks for another."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
AT_ONCE = 500
LARGEST = 64 << 10  # bytes of a datagram
LONGEST_PATH = 100  # of the 108 bytes in sockaddr_un


@dataclass(frozen=True, slots=True)
class Notice:
    """One datagram: who sent it and what it says."""

    pid: int
    fields: dict[str, str]


class NoticeSocket:
    """Bound for the life of the supervisor; its path is every child's NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self._folder: Path | None = None
        if len(os.fsencode(path)) > LONGEST_PATH:
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
        """What has arrived; the rest next time, so that one that never stops sending does not starve the others."""
        notices: list[Notice] = []
        for _ in range(AT_ONCE):
            try:
                data, ancillary, _, _ = self.socket.recvmsg(LARGEST, socket.CMSG_SPACE(_CREDENTIALS.size))
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
