"""One web process: uvicorn as the unit in deploy/ starts it, on a database of its own; and the load on it."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from bench.harness.cpu import cpu_seconds
from bench.harness.environment import ROOT
from bench.harness.figures import percentile
from bench.harness.processes import PeerError
from dalston_site.embedded.guarded import guarded

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Answered:
    """What one round of requests gave."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float  # of the web process, per request
    last: Any  # the last answer


@dataclass(frozen=True)
class Web:
    port: int
    pid: int

    def round(self, request: bytes, count: int, connections: int) -> Answered:
        before = cpu_seconds([self.pid])
        argv = [sys.executable, "-m", "bench.apis.load", str(self.port), str(connections), str(count)]
        done = subprocess.run(
            guarded(argv, dies_with=signal.SIGKILL), cwd=ROOT, input=request, capture_output=True, check=False,
            timeout=PATIENCE_S * 3,
        )  # fmt: skip
        if done.returncode != 0:
            raise PeerError(f"the load ended with {done.returncode}: {done.stderr.decode()[-1000:]}")
        found = json.loads(done.stdout)
        if wrong := {status for status in found["statuses"] if not status.startswith("2")}:
            raise PeerError(f"answers with status {', '.join(wrong)}; the last: {found['last'][:500]}")
        took = [seconds * 1000 for seconds in found["took"]]
        return Answered(
            per_second=count / found["seconds"],
            p50_ms=percentile(took, 0.5),
            p99_ms=percentile(took, 0.99),
            cpu_ms=(cpu_seconds([self.pid]) - before) / count * 1000,
            last=json.loads(found["last"]),
        )


def request(method: str, path: str, body: Any = None, token: str = "") -> bytes:
    """As bytes for the wire."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
    if content:
        head.append("Content-Type: application/json")
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


@contextmanager
def serving(application: str, environment: Mapping[str, str], path: str) -> Iterator[Web]:
    """`path` answers anything at all once it serves. What it logs goes to a file: a full pipe would stop it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    argv = [sys.executable, "-m", "uvicorn", application, "--host", "127.0.0.1", "--port", str(port)]
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
    end = time.monotonic() + PATIENCE_S
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
    raise PeerError(f"{url} did not answer within {PATIENCE_S:.0f} s")
