"""HTTP connections of the web process: what a client may hold or use without sending a whole request, or reading its
answer.

A head must be complete in HEAD_S, and has at most MAX_HEAD_BYTES. A body must keep coming at MIN_BODY_BYTES in each
BODY_CHECK_S, however large it may be. While the server itself does not read, no time counts. Of connections that wait
for a head, or are refused, at most half of the files that the process may have are kept: the oldest gives way. h11
parses, because it keeps at most one head in memory. Of pipelined requests at most MAX_AHEAD_BYTES wait in memory, the
rest in the network. What the event loop would parse for seconds is refused: a head of more than MAX_HEAD_LINES, and
chunks of a few bytes. Other chunks are parsed a few at a time, and of a body whose answer was sent little is read. A
refusal takes a while, so that a client that comes again at once costs little.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import resource
import termios
from array import array
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_LINES = 100
"""Header lines, as in Apache and gunicorn. 7 500 fit into MAX_HEAD_BYTES, and take as long as 50 ordinary requests."""
MAX_AHEAD_BYTES = 64 * 1024
"""Of pipelined requests, and what one read of the socket brings."""
HEAD_S = 10.0
"""From the connection, or from the first byte of a further request."""
BODY_CHECK_S = 15.0
MIN_BODY_BYTES = 64 * 1024
"""In BODY_CHECK_S. A body that needs no token is no larger than that (held.py): it has 30 s at most."""
MAX_CHUNKS, MIN_CHUNK_BYTES = 1000, 64
"""A body in chunks may have so many of any size, and then one for each MIN_CHUNK_BYTES: 40 000 chunks of one byte come
with one read, and held every client up for seconds."""
CHUNKS_AT_ONCE, NEXT_CHUNKS_S = 20, 0.002
"""So many chunks are parsed in a step of the event loop, and the next after so many seconds: 80 MB/s of 8 KiB each."""
MAX_REST_BYTES, BYTES_OF_CHUNK, NEXT_REST_S = 64 * 1024 * 1024, 1024, 0.01
"""Of a body that comes after its answer was sent, as without a token; each chunk counts as so many more. Honest clients
send all before they read why it is refused. It is read at 25 MB/s."""
REFUSED_S = 1.0
"""Until the connection of a request that is not HTTP, or has too many parts, is answered and closed."""
WRITE_S = 60.0
"""An answer of which the network takes nothing for so long is given up."""
STREAMED = "dalston.streamed"
"""In the scope of a request whose answer is not in memory, and is never given up: a player reads a recording as it
plays."""

_BLANK_LINE = re.compile(rb"\n\r?\n")
_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
MAX_WAITING = (_files if 0 < _files < 131_072 else 131_072) // 2
_waiting: OrderedDict[BoundedProtocol, None] = OrderedDict()
"""Connections whose head is not complete, or which are refused, oldest first."""


class BoundedFlow(FlowControl):
    """While a request is answered uvicorn reads on, to notice that its client leaves. A client that pipelines requests
    would be read as fast as it sends."""

    def __init__(self, transport: asyncio.Transport, connection: BoundedConnection) -> None:
        super().__init__(transport)
        self._connection = connection
        self.is_refused = False

    def resume_reading(self) -> None:
        if self.is_refused or self._connection.has_more:
            return
        ahead = self._connection.their_state is h11.DONE and len(self._connection.trailing_data[0])
        if not ahead or ahead <= MAX_AHEAD_BYTES:
            super().resume_reading()


class BoundedConnection(h11.Connection):
    """h11 with bounds of what takes time rather than memory."""

    refusal = ""
    has_more = False  # chunks that were received, and are parsed in the next step
    parsed = 0  # in this step

    def next_event(self) -> Any:
        if self.parsed >= CHUNKS_AT_ONCE:
            self.has_more = True
            return h11.NEED_DATA
        if self.their_state is h11.IDLE:
            self._chunks = self._size = self._rest = 0
            self._check_head(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._check_chunk(len(event.data))
        return event

    def _check_chunk(self, size: int) -> None:
        self.parsed += 1
        self._chunks += 1
        self._size += size
        if self._chunks > MAX_CHUNKS + self._size // MIN_CHUNK_BYTES:
            self._refuse("The chunks of the body are too small.")
        if self.is_answered:
            self.parsed += size // 8192  # one read is a step
            self._rest += size + BYTES_OF_CHUNK
            if self._rest > MAX_REST_BYTES:
                self._refuse("The request was answered before its body ended.")

    @property
    def is_answered(self) -> bool:
        return self.our_state in (h11.DONE, h11.MUST_CLOSE)

    def _check_head(self, ahead: bytes) -> None:
        end = _BLANK_LINE.search(ahead)
        if ahead.count(b"\n", 0, end.start() if end else len(ahead)) > MAX_HEAD_LINES:
            self._refuse(f"A request has at most {MAX_HEAD_LINES} header lines.")

    def _refuse(self, why: str) -> None:
        self.refusal = why
        raise h11.RemoteProtocolError(why)


class BoundedProtocol(H11Protocol):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn: BoundedConnection = BoundedConnection(h11.SERVER, MAX_HEAD_BYTES)
        self.flow: BoundedFlow
        self._write_timer: asyncio.TimerHandle | None = None
        self._wait_timer: asyncio.TimerHandle | None = None
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

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_S, self._check_reader, self._unsent())

    def resume_writing(self) -> None:
        self._stop_write()
        super().resume_writing()

    def handle_events(self) -> None:
        self.conn.parsed, self.conn.has_more = 0, False
        super().handle_events()
        if self.flow.is_refused:
            return
        if self.conn.has_more:
            self.flow.pause_reading()
            self.loop.call_later(NEXT_REST_S if self.conn.is_answered else NEXT_CHUNKS_S, self._go_on)
        # After an upgrade h11 waits for ever for the rest of the request: the connection is a WebSocket's now.
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop()
        elif self.conn.their_state is h11.IDLE:
            # Between two requests uvicorn's own timer runs, until the next one begins.
            self._stop_pace()
            self.flow.resume_reading()  # of the requests read ahead this was the last
            if self._wait_timer is None and self.conn.trailing_data[0]:
                self._await_head()
        else:
            self._stop_wait()
            if self.conn.their_state is not h11.SEND_BODY:
                self._stop_pace()
            elif self._pace_timer is None:
                self._received = 0
                self._pace_timer = self.loop.call_later(BODY_CHECK_S, self._check_pace)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop()
        super().handle_websocket_upgrade(event)

    def _go_on(self) -> None:
        if self.conn.has_more and not self.flow.is_refused and not self.transport.is_closing():
            self.handle_events()
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        if not self.flow.is_refused:
            self._stop()
            self.flow.pause_reading()
            self.flow.is_refused = True
            self._wait(REFUSED_S, self._answer_400, self.conn.refusal or msg)

    def _answer_400(self, why: str) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.cycle is not None:  # still works on the request, and would answer, too
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            super().send_400_response(why)
        else:  # its answer was sent, or begun, before the rest of its body came
            self.transport.abort()

    def _await_head(self) -> None:
        self._wait(HEAD_S, self._give_up)

    def _wait(self, seconds: float, then: Callable[..., None], *arguments: str) -> None:
        self._wait_timer = self.loop.call_later(seconds, then, *arguments)
        _waiting[self] = None
        if len(_waiting) > MAX_WAITING:
            next(iter(_waiting))._give_up()  # noqa: SLF001 - another one of ours

    def _check_pace(self) -> None:
        self._pace_timer = None
        if self.conn.their_state is not h11.SEND_BODY or self.transport.is_closing():
            return
        if self._received < MIN_BODY_BYTES and not self.flow.read_paused:
            self._give_up()
            return
        self._received = 0
        self._pace_timer = self.loop.call_later(BODY_CHECK_S, self._check_pace)

    def _give_up(self) -> None:
        """Without an answer: a client that is slow on purpose would read it slowly as well."""
        self._stop()
        self.transport.abort()

    def _stop(self) -> None:
        self._stop_wait()
        self._stop_pace()
        self._stop_write()

    def _check_reader(self, before: int) -> None:
        self._write_timer = None
        unsent = self._unsent()
        if unsent < before or self.scope.get(STREAMED):
            self._write_timer = self.loop.call_later(WRITE_S, self._check_reader, unsent)
        else:
            self._give_up()

    def _unsent(self) -> int:
        """Bytes in the buffers of this process and of the kernel, which holds megabytes."""
        waiting = array("i", [0])
        with suppress(OSError):  # no such number on this system
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, waiting)
        return int(self.transport.get_write_buffer_size()) + waiting[0]

    def _stop_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _stop_wait(self) -> None:
        _waiting.pop(self, None)
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None

    def _stop_pace(self) -> None:
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None
