"""Raw connections to a web process, as an attacker opens them."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from tests.web import Web


class Raw:
    def __init__(self, web: Web, receive_bytes: int = 0) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(30)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", web.port))

    def send(self, data: bytes) -> bool:
        """False: the server has closed the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def answer(self, timeout: float = 30) -> bytes:
        """What comes until the server closes the connection, or the first part of it; empty if nothing does."""
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(65_536)
        except ConnectionError:
            return b""

    def whole_answer(self) -> bytes:
        """What comes until the server closes the connection."""
        parts: list[bytes] = []
        while part := self.answer():
            parts.append(part)
        return b"".join(parts)

    def closed_after(self, timeout: float = 30) -> float:
        """Seconds until the server closes the connection."""
        began = time.monotonic()
        end = began + timeout
        while time.monotonic() < end:
            self.socket.settimeout(max(0.1, end - time.monotonic()))
            try:
                if not self.socket.recv(65_536):
                    break
            except ConnectionError:
                break
        return time.monotonic() - began

    def close(self) -> None:
        self.socket.close()


def memory_mb(web: Web) -> float:
    """What the process holds in memory, or may swap."""
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("VmRSS", "VmSwap"))) / 1024


def files_mb(web: Web) -> float:
    """What the process holds in deleted temporary files."""
    held = 0
    for each in Path(f"/proc/{web.process.pid}/fd").iterdir():
        try:
            if "(deleted)" in str(each.readlink()):
                held += each.stat().st_size
        except OSError:
            continue  # closed meanwhile
    return held / 1024 / 1024


def quick(web: Web) -> float:
    """The time of another client's request."""
    began = time.monotonic()
    with web.client() as client:
        assert client.get("/healthz").status_code == 200
    return time.monotonic() - began
