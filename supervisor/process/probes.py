"""Health checks of engines: a command that must exit 0, or a URL that must answer. Two failures pause the engine."""

from __future__ import annotations

import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException

import structlog

from dalston_queue.broker.protocol.types import EngineState

from ..events import Probed
from . import children
from .children import Child
from .fleet import Fleet
from .slot import Slot

log = structlog.get_logger("supervisor.probes")

MAX_FAILURES = 2


@dataclass(slots=True)
class Check:
    """State of the checks of one process."""

    engine_id: str
    next_at: float
    failures: int = 0
    child: Child | None = None
    kill_at: float = 0.0
    in_flight: bool = False


class Probes:
    def __init__(self, fleet: Fleet, post: Callable[[Probed], None]) -> None:
        self.fleet = fleet
        self.post = post
        self.checks: dict[str, Check] = {}

    def step(self, now: float) -> None:
        for slot in self.fleet:
            probe = slot.manifest.probe
            if probe is None or slot.child is None or slot.life.state is not EngineState.READY:
                continue
            check = self.checks.get(slot.name)
            if check is None or check.engine_id != slot.engine_id:
                check = self.checks[slot.name] = Check(slot.engine_id, now + probe.every)
            if check.in_flight:
                if check.child is not None and now >= check.kill_at:
                    children.send(check.child.pid, signal.SIGKILL, whole_group=True)
            elif now >= check.next_at:
                check.next_at, check.in_flight = now + probe.every, True
                self._launch(slot, check, now)

    def ended(self, child: Child, returncode: int) -> None:
        """After a probe command was reaped."""
        for name, check in self.checks.items():
            if check.child is child:
                check.child = None
                why = "" if returncode == 0 else f"its probe ended with {returncode}"
                self.judge(Probed(name, check.engine_id, returncode == 0, why))

    def judge(self, probed: Probed) -> None:
        check, slot = self.checks.get(probed.slot), self.fleet.slots.get(probed.slot)
        if check is None or slot is None or not check.engine_id == probed.engine_id == slot.engine_id:
            return  # it is about an earlier process
        check.in_flight = False
        check.failures = 0 if probed.ok else check.failures + 1
        slot.probe_failures += not probed.ok
        failing = probed.why if check.failures >= MAX_FAILURES else ""
        if bool(failing) != bool(slot.probe_failing):
            log.warning("health check", engine_id=slot.engine_id, ok=not failing, why=failing)
        slot.probe_failing = failing
        self.fleet.apply_pause(slot)

    def _launch(self, slot: Slot, check: Check, now: float) -> None:
        probe = slot.manifest.probe
        if probe is None:
            return
        if probe.url:
            arguments = (slot.name, slot.engine_id, probe.url, probe.timeout)
            threading.Thread(target=self._fetch, args=arguments, name="probe", daemon=True).start()
            return
        try:
            argv = children.resolve(probe.command, slot.manifest.folder)
        except FileNotFoundError as error:
            self.judge(Probed(slot.name, slot.engine_id, ok=False, why=str(error)))
            return
        name, env = f"probe:{slot.name}", children.base_environment()
        child = children.spawn(name, argv, folder=slot.manifest.folder, env=env, output=subprocess.DEVNULL)
        check.child, check.kill_at = child, now + probe.timeout
        self.fleet.children[child.pid] = child

    def _fetch(self, slot: str, engine_id: str, url: str, timeout: float) -> None:
        """In its own thread: a server that doesn't answer delays no other probe."""
        try:
            with urllib.request.urlopen(url, timeout=timeout):  # noqa: S310 (the admin's own engine.yaml)
                self.post(Probed(slot, engine_id, ok=True, why=""))
        except (
            OSError,
            ValueError,
            HTTPException,
        ) as error:  # without a result it is never probed again
            self.post(Probed(slot, engine_id, ok=False, why=f"its probe {url} failed: {error}"))
