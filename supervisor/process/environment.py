"""Environment variables of an engine: its id, Redis, the notify socket, its GPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .children import STATE_MARK, base_environment
from .slot import Slot

# From the service manager of the supervisor: not for its engines.
NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The same for all engines of the node."""

    state_dir: Path
    notify_socket: Path
    redis_url: str
    prefix: str
    artifacts_url: str  # empty: the engines have no store


def environment_of_helpers(around: Surroundings) -> dict[str, str]:
    """For the supervisor's helpers, such as the GPU probe: marked, so that the next supervisor finds them too."""
    return {**base_environment(), STATE_MARK: str(around.state_dir)}


def environment(slot: Slot, around: Surroundings) -> dict[str, str]:
    # DALSTON_* settings of engines are inherited as they are.
    inherited = {name: value for name, value in base_environment().items() if name not in NOT_INHERITED}
    return {
        "PYTHONUNBUFFERED": "1",
        "DALSTON_ARTIFACTS_URL": around.artifacts_url,
        "DALSTON_SCRATCH_DIR": str(around.state_dir / "scratch"),
        **inherited,
        **slot.manifest.env,
        "CUDA_VISIBLE_DEVICES": ",".join(slot.gpus),  # empty: a CPU engine sees no GPU
        "REDIS_URL": around.redis_url,
        "DALSTON_REDIS_PREFIX": around.prefix,
        "DALSTON_NODE_ID": slot.node,
        "DALSTON_ENGINE_ID": slot.engine_id,
        "DALSTON_SUPERVISOR_PID": str(os.getpid()),
        "DALSTON_ENGINE_MANIFEST": str(Path(slot.manifest.folder, "engine.yaml")),
        "NOTIFY_SOCKET": str(around.notify_socket),
        STATE_MARK: str(around.state_dir),
    }
