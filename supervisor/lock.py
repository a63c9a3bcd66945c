"""One supervisor per node: a lock that the kernel drops when its holder dies. The second is told who the first is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class AlreadyRunningError(Exception):
    """Another supervisor holds this node's state dir."""


class NodeLock:
    def __init__(self, path: Path, node: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self.fd, 200).decode("utf-8", "replace").strip()
            os.close(self.fd)
            raise AlreadyRunningError(
                f"{holder or 'another supervisor'} already runs here and holds {path}: "
                "stop it first, or give this one another --state-dir and --node-id"
            ) from None
        os.ftruncate(self.fd, 0)
        os.write(self.fd, f"node {node}, pid {os.getpid()}".encode())

    def release(self) -> None:
        os.close(self.fd)
