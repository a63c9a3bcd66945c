"""Metrics of a node, filled by its supervisor from its last report. GPU gauges have the names that DCGM users know."""

from __future__ import annotations

from functools import partial

from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.metrics.declare import SLOTS, Family, read

_read = partial(read, set_in="supervisor/http.py", served_by="supervisor")
_BY_SLOT = {"engine": SLOTS}
_BY_GPU = {"gpu": "its index", "UUID": "GPUs of this node", "modelName": "its model"}

REDIS_UP = _read("gauge", "dalston_node_redis_up", "1 while Redis answers the supervisor")
ENGINES = _read("gauge", "dalston_node_engines", "Engine slots by state", labels={"state": ", ".join(EngineState)})
EXITS = _read("counter", "dalston_engine_exits_total", "Ended processes of a slot", labels=_BY_SLOT)
CPU = _read("gauge", "dalston_engine_cpu_percent", "CPU of an engine with its descendants", labels=_BY_SLOT)
MEMORY = _read("gauge", "dalston_engine_memory_mib", "Memory of the same processes", labels=_BY_SLOT)
BREAKER = _read(
    "gauge",
    "dalston_circuit_breaker_state",
    "Circuit breaker of an engine: 0 closed, 1 open, 2 half-open",
    labels=_BY_SLOT,
)
PROBE = _read("gauge", "dalston_engine_probe_failing", "1 while an engine's health probe fails", labels=_BY_SLOT)
PROBE_FAILURES = _read(
    "counter", "dalston_worker_health_probe_failures_total", "Failed health probes of a slot", labels=_BY_SLOT
)
DISK = _read("gauge", "dalston_node_disk_used_ratio", "Share in use of the file system that holds the state folder")

GPU: dict[str, Family] = {
    field: _read("gauge", name, text, labels=_BY_GPU)
    for name, field, text in (
        ("DCGM_FI_DEV_GPU_UTIL", "utilisation", "GPU utilisation in percent"),
        ("DCGM_FI_DEV_FB_USED", "used_mib", "Framebuffer memory used, in MiB"),
        ("DCGM_FI_DEV_FB_TOTAL", "total_mib", "Framebuffer memory, in MiB"),
        ("DCGM_FI_DEV_GPU_TEMP", "temperature", "GPU temperature in degrees Celsius"),
        ("DCGM_FI_DEV_POWER_USAGE", "power_w", "Power in watts"),
        ("DCGM_FI_DEV_XID_ERRORS", "last_xid", "The last Xid error"),
    )
}
"""By field of GpuReport."""
