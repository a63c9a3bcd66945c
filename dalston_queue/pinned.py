"""HTTP connections to one checked address, whatever its name resolves to by now. A leaf of the standard library."""

import contextlib
import http.client
import socket
import ssl

from dalston_queue.addresses import Target


class PinnedConnection(http.client.HTTPConnection):
    """Goes to the address, not to the name; the certificate is checked for the name."""

    sock: socket.socket | None

    def __init__(self, target: Target, address: str, timeout_s: float) -> None:
        super().__init__(target.host, target.port, timeout=timeout_s)
        self._target = target
        self._address = address

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self._target.port), self.timeout)
        self.sock = plain
        if self._target.secure:
            context = ssl.create_default_context()
            # The handshake comes after the assignment, so that cut() finds the socket.
            secure = context.wrap_socket(plain, server_hostname=self._target.host, do_handshake_on_connect=False)
            self.sock = secure
            secure.do_handshake()

    def cut(self) -> None:
        """Called from another thread: whatever waits for this connection fails now."""
        if self.sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
