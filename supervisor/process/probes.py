"""Health checks of engines: the SDK's own, a command that must exit 0, or a URL that must answer.

Two failures pause the engine; until it answers well again it is asked more often.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException

import structlog

from dalston_queue.broker.nodes.health import ask_health
from dalston_queue.broker.protocol.types import EngineState

from ..events import Probed
from . import children
from .children import Child
from .fleet import Fleet
from .slot import Slot

log = structlog.get_logger("supervisor.probes")

MAX_FAILURES = 2
SOON_S = 5.0
"""The first check comes so soon, and so does each one after a failure, unless the interval is shorter."""


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
            if not (probe.command or probe.url or slot.pausable):
                continue  # it has no SDK that would answer
            check = self.checks.get(slot.name)
            if check is None or check.engine_id != slot.engine_id:
                check = self.checks[slot.name] = Check(slot.engine_id, now + min(probe.every, SOON_S))
            if check.in_flight:
                if check.child is not None and now >= check.kill_at:
                    children.send(check.child.pid, signal.SIGKILL, whole_group=True)
            elif now >= check.next_at:
                pause = min(probe.every, SOON_S) if check.failures else probe.every
                check.next_at, check.in_flight = now + pause, True
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
        slot.health = probed.health
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
        if not probe.command:
            asked = (slot.name, slot.engine_id, slot.child.pid if slot.child else 0, probe.timeout)
            threading.Thread(target=self._ask, args=asked, name="probe", daemon=True).start()
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

    def _ask(self, slot: str, engine_id: str, pid: int, timeout: float) -> None:
        """In its own thread, as _fetch."""
        try:
            health = ask_health(engine_id, pid, timeout)
        except (OSError, ValueError) as error:
            self.post(Probed(slot, engine_id, ok=False, why=f"it does not answer its probe: {error!r}"))
            return
        # While the supervisor has no connection either, it is the server that is away.
        cut_off = "it has no connection to Redis" if self.fleet.link.up and not health.connected else ""
        why = health.problem or cut_off
        self.post(Probed(slot, engine_id, ok=not why, why=why, health=health))

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
