"""A receiver of webhooks: an HTTP server that records requests and answers with the codes of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Receiver:
    """Answers with `codes` in turn, then with 200."""

    def __init__(self) -> None:
        self.got: list[Received] = []
        self.codes: list[int] = []
        self.drip = False  # answers byte by byte and never ends
        self.gate: threading.Event | None = None  # the next answer waits for it
        self.delay_s = 0.0  # before each answer
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook?x=1"


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Received(self.path, dict(self.headers.items()), body))
            gate, receiver.gate = receiver.gate, None
            if gate is not None:
                gate.wait()
            time.sleep(receiver.delay_s)
            if receiver.drip:
                self._drip()
                return
            code = receiver.codes.pop(0) if receiver.codes else 200
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _drip(self) -> None:
            try:
                for _ in range(200):
                    self.wfile.write(b"H")
                    time.sleep(0.05)
            except OSError:
                pass  # the sender has timed out

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()
