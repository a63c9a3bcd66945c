"""Checks of a node: one finding per subject, each with what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import msgspec

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from engines.sdk.manifest import ManifestError

from .config import NodePlan
from .gpu.reading import Reading
from .process.cgroup import MemoryEvents
from .process.linux import become_subreaper

SLOW_REDIS_S = 0.05
MAX_SKEW_S = 2.0
NVML_TIMEOUT_S = 15.0
MIN_FREE_BYTES = 1 << 30


class Grade(IntEnum):
    """The exit code is the worst of all findings."""

    OK = 0
    DEGRADED = 1
    BROKEN = 2


@dataclass(frozen=True, slots=True)
class Finding:
    grade: Grade
    subject: str
    text: str


def examine(make_broker: Callable[[], Broker], read_plan: Callable[[], NodePlan], state_dir: Path) -> Iterator[Finding]:
    """All checks, the most important first. Never raises."""
    yield from redis(make_broker)
    yield engines(read_plan)
    yield state(state_dir)
    yield setpriv()
    yield subreaper()
    yield cgroup()
    yield gpus()


def redis(make_broker: Callable[[], Broker]) -> Iterator[Finding]:
    try:
        broker = make_broker()
        broker.ping()  # connects
        seconds = broker.ping()
    except BrokerError as error:
        yield Finding(Grade.BROKEN, "redis", f"{error}: engines get no work; check REDIS_URL")
        return
    grade = Grade.DEGRADED if seconds > SLOW_REDIS_S else Grade.OK
    yield Finding(grade, "redis", f"answers in {seconds * 1000:.1f} ms")
    for sentence in broker.check():
        yield Finding(Grade.DEGRADED, "redis", sentence)
    skew = broker.snapshot([]).at_ms / 1000 - time.time()
    if abs(skew) > MAX_SKEW_S:
        text = f"the clock of Redis is {skew:+.1f} s from ours: deadlines shown to engines will be off; set up NTP"
        yield Finding(Grade.DEGRADED, "clock", text)
    else:
        yield Finding(Grade.OK, "clock", f"within {abs(skew) * 1000:.0f} ms of Redis")


def engines(read_plan: Callable[[], NodePlan]) -> Finding:
    try:
        plan = read_plan()
    except ManifestError as error:
        return Finding(Grade.BROKEN, "engines", str(error))
    names = ", ".join(f"{name} x{plan.replicas(name)}" for name in sorted(plan.manifests))
    if not names:
        return Finding(Grade.DEGRADED, "engines", "none found: this node would do nothing")
    return Finding(Grade.OK, "engines", names)


def state(state_dir: Path) -> Finding:
    existing = next(parent for parent in (state_dir, *state_dir.absolute().parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        text = f"{state_dir} can't be written: start the supervisor with another --state-dir"
        return Finding(Grade.BROKEN, "state dir", text)
    free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        return Finding(Grade.DEGRADED, "state dir", f"{state_dir} has only {free >> 20} MiB free for logs")
    return Finding(Grade.OK, "state dir", f"{state_dir}, {free >> 30} GiB free")


def setpriv() -> Finding:
    found = shutil.which("setpriv")
    if found:
        return Finding(Grade.OK, "setpriv", f"{found}: engines die with their supervisor")
    text = "not found (package util-linux): engines outlive a killed supervisor until the next one starts"
    return Finding(Grade.DEGRADED, "setpriv", text)


def subreaper() -> Finding:
    if become_subreaper():
        return Finding(Grade.OK, "subreaper", "orphaned grandchildren become children of the supervisor")
    return Finding(Grade.DEGRADED, "subreaper", "refused: grandchildren are found by their environment only")


def cgroup() -> Finding:
    file = MemoryEvents().file
    if file is None:
        text = "no memory.events: an engine killed for lack of memory shows as signal 9 only"
        return Finding(Grade.DEGRADED, "cgroup", text)
    return Finding(Grade.OK, "cgroup", f"{file} shows when the host runs out of memory")


def gpus() -> Finding:
    """One reading of the probe, in its own process with a timeout."""
    argv = [sys.executable, "-m", "supervisor.gpu.probe", "0"]
    try:
        done = subprocess.run(argv, input=b"", capture_output=True, timeout=NVML_TIMEOUT_S, check=False)
        reading = msgspec.json.decode(done.stdout.splitlines()[0], type=Reading)
    except subprocess.TimeoutExpired:
        text = f"the NVIDIA driver did not answer within {NVML_TIMEOUT_S:.0f} s: reboot the node"
        return Finding(Grade.BROKEN, "gpu", text)
    except (IndexError, msgspec.MsgspecError):
        return Finding(Grade.BROKEN, "gpu", f"the probe failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    if reading.problem:
        no_gpu = "no GPU" in reading.problem
        return Finding(Grade.OK if no_gpu else Grade.DEGRADED, "gpu", f"{reading.problem}; CPU engines run")
    names = "; ".join(
        f"{device.index}: {device.name}, {device.used_mib} of {device.total_mib} MiB used" for device in reading.devices
    )
    return Finding(Grade.OK, "gpu", f"driver {reading.driver}, {names}")
