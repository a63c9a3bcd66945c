"""HTTP server of the supervisor: /healthz and /metrics. The metrics are declared in dalston_queue/metrics/nodes.py."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric

from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.metrics import nodes
from dalston_queue.metrics.server import Answer, ProcessServer, metrics_of, parse_address

from .redis_link import Link


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
            (nodes.BREAKER, "breaker_open"),
            (nodes.PROBE, "probe_failing"),
            (nodes.PROBE_FAILURES, "probe_failures"),
        ):
            yield family.of({slot: float(info[name]) for slot, info in slots.items()})
        if report.info["disk_used"] is not None:
            yield nodes.DISK.value(report.info["disk_used"])
        devices = report.info["gpus"].devices
        for name, family in nodes.GPU.items():
            yield family.of({(str(each.index), each.uuid, each.name): float(getattr(each, name)) for each in devices})


class NodeServer(ProcessServer):
    def __init__(self, address: str, link: Link) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(NodeCollector(link))

        def healthz() -> Answer:
            problem = link.problem()
            return Answer(503 if problem else 200, f"{problem or 'ok'}\n".encode())

        super().__init__(parse_address(address), {"/metrics": metrics_of(registry), "/healthz": healthz})
