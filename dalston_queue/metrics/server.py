"""The port of a process that serves no other HTTP: /metrics, /healthz and /readyz of an orchestrator,
housekeeping or a supervisor."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dalston_queue.health.report import KIND, Health

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    kind: str = TEXT


Route = Callable[[], Answer]


def metrics_of(registry: CollectorRegistry) -> Route:
    return lambda: Answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)


def health_routes(health: Health) -> dict[str, Route]:
    def answer(ask: Callable[[], tuple[HTTPStatus, bytes]]) -> Route:
        def route() -> Answer:
            code, body = ask()
            return Answer(code, body, KIND)

        return route

    return {"/healthz": answer(health.healthz), "/readyz": answer(health.readyz)}


def parse_address(text: str) -> tuple[str, int]:
    """`ADDRESS:PORT`; without an address it is loopback. Raises ValueError."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]*):(\d{1,5})", text)
    if not found or int(found[2]) > 65_535:
        raise ValueError(f"{text!r} is not ADDRESS:PORT, for instance 127.0.0.1:9433")
    return found[1].strip("[]") or "127.0.0.1", int(found[2])


class _Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class ProcessServer:
    """One thread per request: a slow client delays no other request. Raises OSError if the port can't be used."""

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                route = routes.get(self.path.partition("?")[0])
                known = f"only {' and '.join(sorted(routes))} are here\n".encode()
                answer = route() if route else Answer(404, known)
                self.send_response(answer.code)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                """No log: a scraper comes every few seconds."""

        kind = _Server6 if ":" in address[0] else ThreadingHTTPServer
        self.server = kind(address, Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, name="http", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
