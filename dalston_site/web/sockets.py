"""WebSockets of the web process: how often an unknown client may open one, and how little a live page may send."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dalston_site.web.protocol import REFUSED_S

MAX_BYTES, BYTES_PER_S = 4096, 256
"""What a client may send after the handshake, and for each second: it answers a ping of ours each 20 s. A client that
sends pings as fast as it can held every other client up for seconds."""

REFUSAL = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

Application = Callable[[Any, Any, Any], Awaitable[Any]]


class BoundedWebSocket(WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._allowed_at = 0.0  # when all that was sent is allowed

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            now = time.monotonic()
            self._allowed_at = max(self._allowed_at, now - MAX_BYTES / BYTES_PER_S) + len(data) / BYTES_PER_S
            if self._allowed_at > now:
                self.transport.pause_reading()  # what has come is never parsed
                self.loop.call_later(REFUSED_S, self.transport.abort)
                return
        super().data_received(data)
        if not self.handshake_initiated:  # the head is no handshake: uvicorn would leave it unanswered and open
            self.transport.write(b"".join(self.conn.data_to_send()) or REFUSAL)
            self.transport.close()

    def send_receive_event_to_app(self) -> None:
        """Messages are ignored: a live page sends none."""
        self.frames = []


class PacedHandshakes:
    """Between the handshakes of a client that is not known there is a pause, as between its requests."""

    def __init__(self, keep_pace: Callable[[Any], Awaitable[str]], application: Application) -> None:
        self._keep_pace, self._application = keep_pace, application

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await self._keep_pace(scope)
        await self._application(scope, receive, send)
