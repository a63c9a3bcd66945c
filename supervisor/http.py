"""HTTP server of the supervisor: /healthz, /readyz and /metrics, which dalston_queue/metrics/nodes.py declares."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric

from dalston_queue.broker.engine.breaker import BreakerState
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.health.report import OK, Finding, Findings, Grade, Health, Probe, failed, standing_still
from dalston_queue.metrics import nodes
from dalston_queue.metrics.server import ProcessServer, health_routes, metrics_of, parse_address

from .redis_link import MAIN_LOOP_TIMEOUT_S, Link, Report

REDIS_SILENT_S = 15.0
"""The link asks Redis each second; a call that hangs is given up after 5 s."""


BREAKER_NUMBERS = {BreakerState.CLOSED: 0, BreakerState.OPEN: 1, BreakerState.HALF_OPEN: 2}


class NodeCollector:
    """Metrics from the main loop's last report: one read, no locks."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def collect(self) -> Iterator[Metric]:
        report = self.link.report
        yield nodes.REDIS_UP.value(int(self.link.up))
        if report is None:
            return
        states = [engine.state for engine in report.engines]
        yield nodes.ENGINES.of({(state,): states.count(state) for state in EngineState})
        slots = {(str(engine.info["slot"]),): engine.info for engine in report.engines}
        for family, name in (
            (nodes.EXITS, "exits"),
            (nodes.CPU, "cpu_percent"),
            (nodes.MEMORY, "memory_mib"),
            (nodes.PROBE, "probe_failing"),
            (nodes.PROBE_FAILURES, "probe_failures"),
        ):
            yield family.of({slot: float(info[name]) for slot, info in slots.items()})
        yield nodes.BREAKER.of({slot: float(BREAKER_NUMBERS[info["breaker"]]) for slot, info in slots.items()})
        if report.info["disk_used"] is not None:
            yield nodes.DISK.value(report.info["disk_used"])
        devices = report.info["gpus"].devices
        for name, family in nodes.GPU.items():
            yield family.of({(str(each.index), each.uuid, each.name): float(getattr(each, name)) for each in devices})


class NodeServer(ProcessServer):
    def __init__(self, address: str, link: Link) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(NodeCollector(link))
        super().__init__(parse_address(address), {"/metrics": metrics_of(registry), **health_routes(health_of(link))})


def health_of(link: Link) -> Health:
    """All from variables that the main loop and the link set: an answer waits for nothing."""

    def alive() -> Findings:
        return standing_still({"main loop": link.idle_s()}, MAIN_LOOP_TIMEOUT_S)

    def ready() -> Findings:
        return {"redis": redis_of(link), "engines": engines_of(link.report)}

    return Health("supervisor", alive=alive, ready=[Probe(("redis", "engines"), ready)], stopping=lambda: leaving(link))


def redis_of(link: Link) -> Finding:
    if not link.up:
        return failed("does not answer")
    silent_s = link.silent_s()
    if silent_s > REDIS_SILENT_S:
        return failed("has not answered yet" if silent_s == math.inf else f"has not answered for {silent_s:.0f} s")
    return OK


def engines_of(report: Report | None) -> Finding:
    """One engine that is ready is enough: the others load, or wait for a GPU, for minutes."""
    if report is None or not report.engines:
        return failed("there is none")
    ready = sum(engine.state is EngineState.READY for engine in report.engines)
    if not ready:
        return failed(f"none of {len(report.engines)} is ready")
    if ready < len(report.engines):
        return Finding(Grade.DEGRADED, f"{ready} of {len(report.engines)} are ready")
    return OK


def leaving(link: Link) -> str:
    state = link.report.state if link.report else NodeState.ACTIVE
    return {NodeState.DRAINING: "the node drains", NodeState.CORDONED: "the node is cordoned"}.get(state, "")
