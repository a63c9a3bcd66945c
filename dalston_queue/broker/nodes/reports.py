"""Reports: the typed part of a heartbeat, about a node, its GPUs and its engines. A leaf.

Everything has a default: an older node, or an engine that runs alone, reports less. A report that can't be read is
empty.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class RunningTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an engine runs."""

    task_id: str
    queue: str = ""
    attempt: int = 0
    started_at_ms: int = 0
    deadline_ms: int = 0  # 0: none
    fraction: float = 0.0  # 0 to 1
    message: str = ""


class ExitReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one of a slot's processes ended."""

    engine_id: str
    at_ms: int
    kind: str  # stopped, config, exited, signal, host_oom, cuda_oom, hang, timeout, not_ready
    text: str  # a sentence, with the evidence
    code: int | None = None
    signal: int | None = None


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answers to its supervisor's probe."""

    problem: str = ""  # why it is unhealthy
    memory_mib: float = 0.0  # resident
    memory_limit_mib: float | None = None  # of its cgroup
    cpu_percent: float = 0.0  # of one core, since the probe before
    threads: int = 0
    progress_age_s: float | None = None  # of the task that reported none for longest; None: no task runs
    connected: bool = True  # to Redis


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """EngineInfo.report."""

    slot: str = ""  # demo.0; empty for an engine that runs alone
    engine: str = ""  # demo
    version: str = ""
    pid: int | None = None
    why: str = ""  # the reason of its state
    started_at_ms: int = 0  # its process; 0 without one
    tasks: list[RunningTask] = []  # at most 32
    running: int = 0  # how many tasks it runs
    exits: int = 0  # processes that ended in this slot since the supervisor's start: its restarts
    last_exits: list[ExitReport] = []  # the newest last
    breaker_open: bool = False  # it claims nothing after failures in a row
    probe_failing: bool = False
    health: HealthReport | None = None  # its last answer to the probe; None: none yet, or it has a probe of its own
    probe_failures: int = 0  # failed health checks of its slot since the supervisor's start
    retry_in_s: float | None = None  # until it is started again
    cpu_percent: float = 0.0  # of one core, its children included
    memory_mib: float = 0.0  # resident, its children included
    gpus: list[str] = []  # UUIDs it is pinned to


class GpuReport(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Memory in MiB, power in watts, temperature in °C, utilisation in percent."""

    uuid: str
    index: int = 0
    name: str = ""
    total_mib: int = 0
    used_mib: int = 0
    utilisation: int = 0
    temperature: int = 0
    power_w: float = 0.0
    standing: str = "healthy"  # healthy, quarantined, probation
    why: str = ""  # the reason, if it is not healthy
    until_ms: int = 0  # the end of its quarantine or probation
    last_xid: int = 0  # 0: none


class GpusReport(msgspec.Struct, frozen=True, kw_only=True):
    problem: str = ""  # why there are none
    driver: str = ""
    devices: list[GpuReport] = []


class DrainReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a drain is."""

    engines_left: int = 0  # processes that still run
    in_flight: int = 0  # tasks that they run
    ends_in_s: float | None = None  # at the latest: by the tasks' deadlines and the engines' grace


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """NodeInfo.report."""

    pid: int | None = None
    labels: dict[str, str] = {}
    why: str = ""  # the reason, if it is cordoned or draining
    config_error: str = ""
    gpus: GpusReport = GpusReport()
    disk_used: float | None = None  # share in use of the file system that holds its state folder
    drain: DrainReport | None = None  # while it drains


def read_report(info: dict[str, Any], kind: type[S]) -> S:
    try:
        return msgspec.convert(info, kind)
    except msgspec.ValidationError:
        return kind()
