"""A TCP proxy that can freeze, as a stopped server does: connections stay and are taken, but nobody answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class FreezingProxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (str(parts.hostname), int(parts.port or 0))
        self._flows = threading.Event()
        self._flows.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lines: list[socket.socket] = []
        self.url = url.replace(f"{parts.hostname}:{parts.port}", f"127.0.0.1:{self._server.getsockname()[1]}")
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.thaw()
        for line in [self._server, *self._lines]:
            _hang_up(line)
            line.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                self._lines += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        _hang_up(source)
        _hang_up(target)


def _hang_up(line: socket.socket) -> None:
    """Closing alone would not end what another thread waits for."""
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
