"""A TCP proxy in front of Redis that counts round trips, and can lose a reply after the server ran the call."""

import contextlib
import selectors
import socket
import ssl
import threading
from urllib.parse import urlsplit


class LossyProxy:
    """proxy.lose(b"...") drops the reply to the next request that contains these bytes, and its connection.
    proxy.round_trips counts the first request of each connection, and those that follow a reply."""

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
        self.round_trips = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        login = f"{self._credentials}@" if self._credentials else ""
        return f"redis://{login}127.0.0.1:{self._listener.getsockname()[1]}/0"

    def lose(self, marker: bytes | None) -> None:
        """None: no reply gets lost."""
        self._marker = marker

    def cut(self) -> None:
        """Cut every connection."""
        with self._lock:
            for sock in self._sockets:
                _shut(sock)
            self._sockets.clear()

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
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
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _dial(self) -> socket.socket:
        if self._upstream_path is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self._upstream_path)
            return sock
        return socket.create_connection(self._upstream)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Both directions in one thread: a TLS socket can't be read in one thread and written in another."""
        losing = asked = False
        with client, server, selectors.DefaultSelector() as sockets, contextlib.suppress(OSError):
            sockets.register(client, selectors.EVENT_READ)
            sockets.register(server, selectors.EVENT_READ)
            while True:
                for sock in _readable(sockets, client):
                    data = sock.recv(1 << 20)
                    if sock is server and data and losing:
                        self.lost += 1
                    if not data or (sock is server and losing):
                        _shut(client)
                        _shut(server)
                        return
                    if sock is client and not asked:
                        with self._lock:
                            self.round_trips += 1
                    asked = sock is client
                    if sock is client and self._marker is not None and self._marker in data:
                        self._marker = None
                        losing = True
                    (server if sock is client else client).sendall(data)


def _readable(sockets: selectors.BaseSelector, client: socket.socket) -> list[socket.socket]:
    if isinstance(client, ssl.SSLSocket) and client.pending():
        return [client]  # already decrypted, so select() does not report it
    return [key.fileobj for key, _ in sockets.select() if isinstance(key.fileobj, socket.socket)]


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
