"""When everything answers: the web process, every orchestrator, the housekeeping, every node and its engines."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import EngineState
from dalston_site.up.announcements import Announcements
from dalston_site.up.errors import UpError
from dalston_site.up.options import Options

PATIENCE_S = 120.0  # seconds are enough on a quiet machine

Probe = Callable[[], str]
"""Says what is still missing; empty when it answers."""


def wait_for(probes: list[Probe], watch: Callable[[], None]) -> None:
    """Until every probe is content. `watch` raises when a process died in the meantime."""
    end = time.monotonic() + PATIENCE_S
    waiting = probes
    while waiting := [probe for probe in waiting if probe()]:
        watch()
        if time.monotonic() > end:
            missing = "; ".join(probe() for probe in waiting)
            raise UpError(f"Not everything answers after {PATIENCE_S:g} s: {missing}.")
        time.sleep(0.05)


def web_answers(options: Options) -> Probe:
    def probe() -> str:
        try:
            with urllib.request.urlopen(f"{options.url}/healthz", timeout=2):  # noqa: S310 (our own http address)
                return ""
        except urllib.error.HTTPError as error:
            return f"{options.url}/healthz answers {error.code}: {error.read(500).decode(errors='replace')}"
        except OSError as error:
            return f"{options.url}/healthz does not answer ({error})"

    return probe


def has_announced(name: str, pid: int, announcements: Announcements) -> Probe:
    return lambda: "" if announcements.has(pid) else f"{name} has not said that it is ready"


def node_is_ready(broker: Broker, node_id: str, since_ms: int) -> Probe:
    """The node beats, and each of its engines is ready. What an earlier run left in Redis doesn't count."""

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
        loading = [
            f"{engine.engine_id} is {engine.state}" for engine in engines if engine.state is not EngineState.READY
        ]
        return ", ".join(loading) or ("" if engines else f"{node_id} has no engine")

    return probe
