"""A TCP proxy that can freeze like a stopped server: connections stay open and are accepted, but get no answer."""

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
        self._sockets: list[socket.socket] = []
        self.url = url.replace(f"{parts.hostname}:{parts.port}", f"127.0.0.1:{self._server.getsockname()[1]}")
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.thaw()
        for each in [self._server, *self._sockets]:
            _shut_down(each)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                self._sockets += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        _shut_down(source)
        _shut_down(target)


def _shut_down(each: socket.socket) -> None:
    """Closing alone does not wake a thread that waits for data."""
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
