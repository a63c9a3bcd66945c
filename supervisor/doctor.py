"""Checks of a node: one finding per subject, each with what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from dalston_queue.broker import Broker
from engines.sdk.manifest import ManifestError

from .config import NodePlan
from .findings import Finding, Grade, artifacts, redis
from .gpu.reading import Reading
from .process.cgroup import MemoryEvents
from .process.linux import become_subreaper

NVML_TIMEOUT_S = 15.0
MIN_FREE_BYTES = 1 << 30


def examine(
    make_broker: Callable[[], Broker], read_plan: Callable[[], NodePlan], state_dir: Path, artifacts_url: str
) -> Iterator[Finding]:
    """All checks, the most important first. Never raises."""
    yield from redis(make_broker)
    yield artifacts(artifacts_url)
    yield engines(read_plan)
    yield state(state_dir)
    yield setpriv()
    yield subreaper()
    yield cgroup()
    yield gpus()


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
    if find_spec("pynvml") is None:
        text = "nvidia-ml-py is not installed here, so that no GPU would be found: pip install 'dalston[node]'"
        return Finding(Grade.DEGRADED, "gpu", text)
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
