"""Where the orchestrators and the housekeeping say that they are ready (see dalston_site/notify.py)."""

import os
import re
import socket
import sys
import tempfile
from pathlib import Path


class Announcements:
    """A datagram socket. On Linux its name is not in the file system, so a kill -9 leaves nothing behind."""

    def __init__(self) -> None:
        self._ready: set[int] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        unique = f"dalston-up-{os.getpid()}-{os.urandom(4).hex()}"
        self.address = f"@{unique}" if sys.platform == "linux" else str(Path(tempfile.gettempdir(), unique))
        self._socket.bind(self.address.replace("@", "\0", 1))

    def has(self, pid: int) -> bool:
        """Has this process said that it is ready?"""
        self._read()
        return pid in self._ready

    def close(self) -> None:
        self._socket.close()
        if not self.address.startswith("@"):
            Path(self.address).unlink(missing_ok=True)

    def _read(self) -> None:
        while True:
            try:
                message = self._socket.recv(4096).decode(errors="replace")
            except BlockingIOError:
                return
            if found := re.fullmatch(r"READY=1\nMAINPID=(\d+)", message):
                self._ready.add(int(found[1]))
