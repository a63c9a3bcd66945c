"""A TCP proxy in front of Redis that can lose the reply of a call, after the server has run it."""

import contextlib
import socket
import ssl
import threading
from urllib.parse import urlsplit


class LossyProxy:
    """proxy.lose(b"...") drops the reply to the next request that contains these bytes, and its connection."""

    def __init__(self, upstream_url: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(upstream_url)
        self._upstream_path = parts.path if parts.scheme == "unix" else None
        self._credentials = parts.netloc.rpartition("@")[0]
        self._upstream = (parts.hostname or "localhost", parts.port or 6379)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self._marker: bytes | None = None
        self._lock = threading.Lock()
        self.lost = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        login = f"{self._credentials}@" if self._credentials else ""
        return f"redis://{login}127.0.0.1:{self._listener.getsockname()[1]}/0"

    def lose(self, marker: bytes) -> None:
        self._marker = marker

    def cut(self) -> None:
        """Cut every connection."""
        with self._lock:
            for sock in self._sockets:
                _close(sock)
            self._sockets.clear()

    def close(self) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._tls is not None:
                    client = self._tls.wrap_socket(client, server_side=True)
            except OSError:
                continue  # the client does not trust us
            server = self._dial()
            with self._lock:
                self._sockets += [client, server]
            losing = threading.Event()
            threading.Thread(target=self._forward_requests, args=(client, server, losing), daemon=True).start()
            threading.Thread(target=self._forward_replies, args=(client, server, losing), daemon=True).start()

    def _dial(self) -> socket.socket:
        if self._upstream_path is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self._upstream_path)
            return sock
        return socket.create_connection(self._upstream)

    def _forward_requests(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        while data := _receive(client):
            if self._marker is not None and self._marker in data:
                self._marker = None
                losing.set()
            server.sendall(data)
        _close(server)

    def _forward_replies(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        while data := _receive(server):
            if losing.is_set():
                self.lost += 1
                break
            client.sendall(data)
        _close(client)
        _close(server)


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 20)
    except OSError:
        return b""


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
