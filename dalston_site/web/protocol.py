"""HTTP connections of the web process: what a client may hold without sending a whole request.

A head must be complete in HEAD_S, and has at most MAX_HEAD_BYTES. A body must keep coming at MIN_BYTES in each PACE_S,
however large it may be. While the server itself does not read, no time counts. Of connections that wait for a head at
most half of the files that the process may have are kept: the oldest gives way. h11 parses, because it keeps at most
one head in memory. Of pipelined requests at most MAX_AHEAD_BYTES wait in memory, the rest in the network.
"""

import asyncio
import resource
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 32 * 1024
MAX_AHEAD_BYTES = 64 * 1024
"""And what one read of the socket brings."""
HEAD_S = 10.0
"""From the connection, or from the first byte of a further request."""
PACE_S = 15.0
MIN_BYTES = 64 * 1024
"""In PACE_S. A body that needs no token is no larger than that (bodies.py): it has 30 s at most."""


_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MAX_WAITING = (_files if 0 < _files < 131_072 else 131_072) // 2
_waiting: "OrderedDict[BoundedProtocol, None]" = OrderedDict()
"""Connections whose head is not complete, oldest first."""


class BoundedFlow(FlowControl):
    """While a request is answered uvicorn reads on, to notice that its client leaves. A client that pipelines requests
    would be read as fast as it sends."""

    def __init__(self, transport: asyncio.Transport, connection: h11.Connection) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        ahead = self._connection.their_state is h11.DONE and len(self._connection.trailing_data[0])
        if not ahead or ahead <= MAX_AHEAD_BYTES:
            super().resume_reading()


class BoundedProtocol(H11Protocol):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._pace_timer: asyncio.TimerHandle | None = None
        self._received = 0  # of a body, since the last tick

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = BoundedFlow(transport, self.conn)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        # After an upgrade h11 waits for ever for the rest of the request: the connection is a WebSocket's now.
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop()
        elif self.conn.their_state is h11.IDLE:
            # Between two requests uvicorn's own timer runs, until the next one begins.
            self._stop_pace()
            self.flow.resume_reading()  # of the requests read ahead this was the last
            if self._head_timer is None and self.conn.trailing_data[0]:
                self._await_head()
        else:
            self._stop_head()
            if self.conn.their_state is not h11.SEND_BODY:
                self._stop_pace()
            elif self._pace_timer is None:
                self._received = 0
                self._pace_timer = self.loop.call_later(PACE_S, self._check_pace)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop()
        super().handle_websocket_upgrade(event)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self._give_up)
        _waiting[self] = None
        if len(_waiting) > MAX_WAITING:
            next(iter(_waiting))._give_up()  # noqa: SLF001 - another one of ours

    def _check_pace(self) -> None:
        self._pace_timer = None
        if self.conn.their_state is not h11.SEND_BODY or self.transport.is_closing():
            return
        if self._received < MIN_BYTES and not self.flow.read_paused:
            self._give_up()
            return
        self._received = 0
        self._pace_timer = self.loop.call_later(PACE_S, self._check_pace)

    def _give_up(self) -> None:
        """Without an answer: a client that is slow on purpose would read it slowly as well."""
        self._stop()
        self.transport.abort()

    def _stop(self) -> None:
        self._stop_head()
        self._stop_pace()

    def _stop_head(self) -> None:
        _waiting.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_pace(self) -> None:
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None
