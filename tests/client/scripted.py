"""A scripted HTTP server: it answers each request with the next answer, and records the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = None
    """JSON, or bytes as they are."""
    headers: dict[str, str] = field(default_factory=dict)
    holds: bool = False
    """Keep the connection open after the body and send nothing."""


CUT = Answer(0)
"""Close the connection without an answer."""


def problem(status: int, code: str, **headers: str) -> Answer:
    body = {"status": status, "code": code, "detail": f"It is {code}.", "trace_id": "a" * 32}
    return Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def handle_one(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.command, self.path, headers, body))
        answer = self.server.answers.pop(0)
        self.close_connection = True
        if answer is CUT:
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/problem+json" if answer.status >= 400 else "application/json")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        if answer.holds:
            self.server.released.wait(10)

    do_GET = do_POST = do_DELETE = handle_one  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def scripted(*answers: Answer) -> Iterator[Server]:
    server = Server(*answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
