"""Readiness probes: web, orchestrators, housekeeping, nodes and their engines."""

import os
import re
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import EngineState
from dalston_site.up.options import Options
from dalston_site.up.stopping import UpError

READY_TIMEOUT_S = 120.0  # seconds are enough on a quiet machine

Probe = Callable[[], str]
"""Returns what is still missing; empty when ready."""


def wait_for(probes: list[Probe], watch: Callable[[], None]) -> None:
    """Waits until every probe returns nothing. `watch` raises when a process has died."""
    end = time.monotonic() + READY_TIMEOUT_S
    waiting = probes
    while waiting := [probe for probe in waiting if probe()]:
        watch()
        if time.monotonic() > end:
            missing = "; ".join(probe() for probe in waiting)
            raise UpError(f"Not everything answers after {READY_TIMEOUT_S:g} s: {missing}.")
        time.sleep(0.05)


def web_answers(options: Options) -> Probe:
    def probe() -> str:
        try:
            with urllib.request.urlopen(f"{options.url}/readyz", timeout=2):  # noqa: S310 (our own http address)
                return ""
        except urllib.error.HTTPError as error:
            return f"{options.url}/readyz answers {error.code}: {error.read(500).decode(errors='replace')}"
        except OSError as error:
            return f"{options.url}/readyz does not answer ({error})"

    return probe


class Announcements:
    """The datagram socket that orchestrators and housekeeping send READY=1 to (see dalston_site/notify.py).

    On Linux its name is not in the file system, so a kill -9 leaves nothing behind.
    """

    def __init__(self) -> None:
        self._ready: set[int] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        unique = f"dalston-up-{os.getpid()}-{os.urandom(4).hex()}"
        self.address = f"@{unique}" if sys.platform == "linux" else str(Path(tempfile.gettempdir(), unique))
        self._socket.bind(self.address.replace("@", "\0", 1))

    def has(self, pid: int) -> bool:
        """Whether this process reported that it is ready."""
        self._read()
        return pid in self._ready

    def close(self) -> None:
        self._socket.close()
        if not self.address.startswith("@"):
            Path(self.address).unlink(missing_ok=True)

    def _read(self) -> None:
        while True:
            try:
                message = self._socket.recv(4096).decode(errors="replace")
            except BlockingIOError:
                return
            if found := re.fullmatch(r"READY=1\nMAINPID=(\d+)", message):
                self._ready.add(int(found[1]))


def has_announced(name: str, pid: int, announcements: Announcements) -> Probe:
    return lambda: "" if announcements.has(pid) else f"{name} has not reported that it is ready"


def node_is_ready(broker: Broker, node_id: str, since_ms: int) -> Probe:
    """The node beats, and each of its engines is ready, or loads: its model may be on its way for minutes, and what it
    waits for is on its page. Entries of an earlier run don't count."""

    def probe() -> str:
        try:
            nodes = [node for node in broker.registry.nodes() if node.node_id == node_id and node.at_ms >= since_ms]
            engines = [
                engine for engine in broker.registry.engines() if engine.node_id == node_id and engine.at_ms >= since_ms
            ]
        except BrokerError as error:
            return f"Redis does not answer ({error})"
        if not nodes:
            return f"{node_id} does not beat"
        good = (EngineState.READY, EngineState.LOADING)
        missing = [f"{engine.engine_id} is {engine.state}" for engine in engines if engine.state not in good]
        return ", ".join(missing) or ("" if engines else f"{node_id} has no engine")

    return probe
