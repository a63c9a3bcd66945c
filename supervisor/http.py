"""HTTP server of the supervisor: /healthz and /metrics. GPU gauges have the names that DCGM users know."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dalston_queue.broker.nodes.reports import GpuReport
from dalston_queue.broker.protocol.types import EngineState

from .redis_link import Link

GPU_GAUGES = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilisation", "GPU utilisation in percent"),
    "DCGM_FI_DEV_FB_USED": ("used_mib", "Framebuffer memory used, in MiB"),
    "DCGM_FI_DEV_FB_TOTAL": ("total_mib", "Framebuffer memory, in MiB"),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", "GPU temperature in degrees Celsius"),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", "Power in watts"),
    "DCGM_FI_DEV_XID_ERRORS": ("last_xid", "The last Xid error"),
}


class NodeCollector:
    """Metrics from the main loop's last report: one read, no locks."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def collect(self) -> Iterator[Metric]:
        report = self.link.report
        yield GaugeMetricFamily("dalston_node_redis_up", "1 while Redis answers", value=int(self.link.up))
        if report is None:
            return
        states = GaugeMetricFamily("dalston_node_engines", "Engine slots by state", labels=["state"])
        for state in EngineState:
            states.add_metric([state], sum(engine.state is state for engine in report.engines))
        yield states
        exits = CounterMetricFamily("dalston_engine_exits", "Ended processes of a slot", labels=["engine"])
        cpu = GaugeMetricFamily(
            "dalston_engine_cpu_percent", "CPU of an engine with its descendants", labels=["engine"]
        )
        memory = GaugeMetricFamily("dalston_engine_memory_mib", "Memory of the same processes", labels=["engine"])
        for engine in report.engines:
            name = [str(engine.info["slot"])]
            exits.add_metric(name, engine.info["exits"])
            cpu.add_metric(name, engine.info["cpu_percent"])
            memory.add_metric(name, engine.info["memory_mib"])
        yield from (exits, cpu, memory)
        yield from self._gpus(report.info["gpus"].devices)

    def _gpus(self, devices: list[GpuReport]) -> Iterator[Metric]:
        for name, (field, text) in GPU_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["gpu", "UUID", "modelName"])
            for device in devices:
                gauge.add_metric([str(device.index), device.uuid, device.name], getattr(device, field))
            yield gauge


class NodeServer:
    """One thread per request: a slow client delays no other request."""

    def __init__(self, address: str, link: Link) -> None:
        host, _, port = address.rpartition(":")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(NodeCollector(link))

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self.answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                elif self.path == "/healthz":
                    problem = link.problem()
                    self.answer(503 if problem else 200, f"{problem or 'ok'}\n".encode(), "text/plain; charset=utf-8")
                else:
                    self.answer(404, b"only /metrics and /healthz are here\n", "text/plain; charset=utf-8")

            def answer(self, code: int, body: bytes, kind: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """No log: a scraper comes every few seconds."""

        self.server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, name="http", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
