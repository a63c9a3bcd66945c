"""Reports: the typed part of a heartbeat, about a node, its GPUs and its engines. A leaf.

Everything has a default: an older node, or an engine that runs alone, reports less. A report that can't be read is
empty.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

# Numbers that any program may have written: a report with one out of range is empty, or pages would overflow.
Moment = Annotated[int, msgspec.Meta(ge=0, le=10**14)]  # milliseconds
Whole = Annotated[int, msgspec.Meta(ge=-(10**12), le=10**12)]
Amount = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]


class RunningTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an engine runs."""

    task_id: str
    queue: str = ""
    attempt: Whole = 0
    started_at_ms: Moment = 0
    deadline_ms: Moment = 0  # 0: none
    fraction: Amount = 0.0  # 0 to 1
    message: str = ""


class ExitReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one of a slot's processes ended."""

    engine_id: str
    at_ms: Moment
    kind: str  # stopped, config, exited, signal, host_oom, cuda_oom, hang, timeout, not_ready
    text: str  # a sentence, with the evidence
    code: Whole | None = None
    signal: Whole | None = None


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answers to its supervisor's probe."""

    problem: str = ""  # why it is unhealthy
    memory_mib: Amount = 0.0  # resident
    memory_limit_mib: Amount | None = None  # of its cgroup
    cpu_percent: Amount = 0.0  # of one core, since the probe before
    threads: Whole = 0
    progress_age_s: Amount | None = None  # of the task that reported none for longest; None: no task runs
    connected: bool = True  # to Redis


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """EngineInfo.report."""

    slot: str = ""  # demo.0; empty for an engine that runs alone
    engine: str = ""  # demo
    version: str = ""
    pid: Whole | None = None
    why: str = ""  # the reason of its state
    started_at_ms: Moment = 0  # its process; 0 without one
    tasks: list[RunningTask] = []  # at most 32
    running: Whole = 0  # how many tasks it runs
    exits: Whole = 0  # processes that ended in this slot since the supervisor's start: its restarts
    last_exits: list[ExitReport] = []  # the newest last
    breaker: str = "closed"  # its circuit breaker: closed, open, half_open (broker/engine/breaker.py)
    probe_failing: bool = False
    health: HealthReport | None = None  # its last answer to the probe; None: none yet, or it has a probe of its own
    probe_failures: Whole = 0  # failed health checks of its slot since the supervisor's start
    retry_in_s: Amount | None = None  # until it is started again
    cpu_percent: Amount = 0.0  # of one core, its children included
    memory_mib: Amount = 0.0  # resident, its children included
    gpus: list[str] = []  # UUIDs it is pinned to


class GpuReport(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Memory in MiB, power in watts, temperature in °C, utilisation in percent."""

    uuid: str
    index: Whole = 0
    name: str = ""
    total_mib: Whole = 0
    used_mib: Whole = 0
    utilisation: Whole = 0
    temperature: Whole = 0
    power_w: Amount = 0.0
    standing: str = "healthy"  # healthy, quarantined, probation
    why: str = ""  # the reason, if it is not healthy
    until_ms: Moment = 0  # the end of its quarantine or probation
    last_xid: Whole = 0  # 0: none


class GpusReport(msgspec.Struct, frozen=True, kw_only=True):
    problem: str = ""  # why there are none
    driver: str = ""
    devices: list[GpuReport] = []


class DrainReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a drain is."""

    engines_left: Whole = 0  # processes that still run
    in_flight: Whole = 0  # tasks that they run
    ends_in_s: Amount | None = None  # at the latest: by the tasks' deadlines and the engines' grace


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """NodeInfo.report."""

    pid: Whole | None = None
    labels: dict[str, str] = {}
    why: str = ""  # the reason, if it is cordoned or draining
    config_error: str = ""
    gpus: GpusReport = GpusReport()
    disk_used: Amount | None = None  # share in use of the file system that holds its state folder
    drain: DrainReport | None = None  # while it drains


def read_report(info: dict[str, Any], kind: type[S]) -> S:
    try:
        return msgspec.convert(info, kind)
    except msgspec.ValidationError:
        return kind()
