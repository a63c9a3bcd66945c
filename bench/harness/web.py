"""One web process: uvicorn as the unit in deploy/ starts it; and the requests that are sent to it.

`python -m bench.harness.web PORT CONNECTIONS COUNT < REQUEST` sends one request so many times over kept-alive HTTP/1.1
connections on uvloop, with no HTTP library in between: it takes a twentieth of the time that the server takes, so two
cores are enough for both. It prints a JSON line: seconds, statuses and how long each response took.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import uvloop

from bench.harness.figures import percentile
from bench.harness.processes import ROOT, PeerError, cpu_seconds
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.server import free_port

READY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Responses:
    """Figures of one round of requests."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float  # of the web process, per request
    last: Any  # the last response


@dataclass(frozen=True)
class Web:
    port: int
    pid: int

    def round(self, request: bytes, count: int, connections: int) -> Responses:
        before = cpu_seconds([self.pid])
        argv = [sys.executable, "-m", "bench.harness.web", str(self.port), str(connections), str(count)]
        done = subprocess.run(
            guarded(argv, dies_with=signal.SIGKILL), cwd=ROOT, input=request, capture_output=True, check=False,
            timeout=3 * READY_TIMEOUT_S,
        )  # fmt: skip
        if done.returncode != 0:
            raise PeerError(f"the load ended with {done.returncode}: {done.stderr.decode()[-1000:]}")
        found = json.loads(done.stdout)
        if wrong := {status for status in found["statuses"] if not status.startswith("2")}:
            raise PeerError(f"responses with status {', '.join(wrong)}; the last: {found['last'][:500]}")
        took = [seconds * 1000 for seconds in found["took"]]
        return Responses(
            per_second=count / found["seconds"],
            p50_ms=percentile(took, 0.5),
            p99_ms=percentile(took, 0.99),
            cpu_ms=(cpu_seconds([self.pid]) - before) / count * 1000,
            last=json.loads(found["last"]),
        )


def request(method: str, path: str, body: Any = None, token: str = "") -> bytes:
    """An HTTP/1.1 request as bytes."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
    if content:
        head.append("Content-Type: application/json")
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


@contextmanager
def serving(application: str, environment: Mapping[str, str], path: str, *options: str) -> Iterator[Web]:
    """`path` has any response at all once the process serves. Its log goes to a file: a full pipe would stop it."""
    port = free_port()
    server = ["dalston_site.web"] if application == "dalston_site.asgi:application" else ["uvicorn", application]
    argv = [sys.executable, "-m", *server, "--host", "127.0.0.1", "--port", str(port), *options]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            guarded(argv, dies_with=signal.SIGKILL), cwd=ROOT, env={**os.environ, **environment},
            stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
        try:
            _wait(process, f"http://127.0.0.1:{port}{path}", log)
            yield Web(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str, log: IO[bytes]) -> None:
    end = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end:
        if process.poll() is not None:
            log.seek(0)
            raise PeerError(f"the web process ended: {log.read().decode()[-2000:]}")
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise PeerError(f"{url} did not answer within {READY_TIMEOUT_S:.0f} s")


class Connection(asyncio.Protocol):
    """One connection: sends the next request when the last response is complete."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.buffer = b""
        self.begun = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if self.load.left == 0:
            self.transport.close()
            return
        self.load.left -= 1
        self.begun = time.perf_counter()
        self.transport.write(self.load.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        _, named, length = head.lower().partition(b"\r\ncontent-length:")
        if not named:
            raise SystemExit(f"a response without a length: {head.decode()}")
        if len(body) < int(length.partition(b"\r\n")[0]):
            return
        self.buffer = b""
        self.load.took.append(time.perf_counter() - self.begun)
        self.load.statuses[head[9:12].decode()] += 1
        self.load.last = body
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.load.open -= 1
        if self.load.open == 0:
            self.load.over.set_result(None)


class Load:
    def __init__(self, request: bytes, count: int, connections: int) -> None:
        self.request, self.left, self.open = request, count, connections
        self.took: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.last = b""

    async def run(self, port: int) -> float:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        begin = time.perf_counter()
        for _ in range(self.open):
            await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
        await self.over
        return time.perf_counter() - begin


def main(port: str, connections: str, count: str) -> None:
    load = Load(sys.stdin.buffer.read(), int(count), int(connections))
    seconds = uvloop.run(load.run(int(port)))
    print(json.dumps({"seconds": seconds, "statuses": load.statuses, "took": load.took, "last": load.last.decode()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
