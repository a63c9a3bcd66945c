"""A slot: one process of one engine at a time, restarted when it ends."""

from __future__ import annotations

import math
import secrets
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dalston_queue.broker.engine.breaker import BreakerState
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.nodes.reports import ExitReport, HealthReport, RunningTask
from dalston_queue.broker.protocol.types import EngineState
from engines.sdk.manifest import Manifest

from ..policy import lifecycle
from ..policy.lifecycle import Life
from .children import Child
from .exits import Exit
from .statefile import EngineRecord, Process

EXITS_KEPT = 5


@dataclass(slots=True)
class Slot:
    """State of a slot. `life` changes only by what the policy returns."""

    node: str
    number: int
    manifest: Manifest
    life: Life = field(default_factory=Life)
    child: Child | None = None
    engine_id: str = ""  # of the process that runs, or of the next one
    descendants: tuple[Process, ...] = ()
    last_exits: deque[ExitReport] = field(default_factory=lambda: deque(maxlen=EXITS_KEPT))
    exits: int = 0
    tasks: tuple[RunningTask, ...] = ()  # as its process reports them
    running: int = 0  # how many tasks run, if there are more than `tasks` holds
    breaker: str = ""  # why its circuit breaker is not closed
    breaker_state: BreakerState = BreakerState.CLOSED
    probe_failing: str = ""  # why its health check fails
    health: HealthReport | None = None  # its own answer to the last probe
    probe_failures: int = 0  # failed health checks of its processes
    capabilities: tuple[str, ...] | None = None  # as its process reports them; None: those of the manifest
    pausable: bool = False  # its SDK understands SIGUSR1 and SIGUSR2
    is_paused: bool = False
    gpus: tuple[str, ...] = ()  # UUIDs it is pinned to
    dead_pids: tuple[int, ...] = ()  # its last process with descendants, until their GPU memory is free
    died_at: float = 0.0
    reclaiming: str = ""
    cpu_percent: float = 0.0
    memory_mib: float = 0.0
    started_at_ms: int = 0
    retired: bool = False  # scaled down or removed: deleted when its process has ended

    def __post_init__(self) -> None:
        self.renew_id()

    @property
    def name(self) -> str:
        return f"{self.manifest.id}.{self.number}"

    def renew_id(self) -> None:
        """A new id for the next process: no two processes ever share one."""
        self.engine_id = f"{self.node}.{self.name}.{secrets.token_hex(6)}"

    def began(self) -> None:
        """Before a process starts in the slot."""
        self.breaker = self.probe_failing = ""
        self.breaker_state = BreakerState.CLOSED
        self.health = None
        self.pausable = self.is_paused = False
        self.capabilities = None
        self.started_at_ms = _now_ms()

    def read_breaker(self, fields: Mapping[str, str]) -> None:
        """From a notice of its process. An SDK of 0.1 names no state: it is open until the engine is healthy."""
        health = fields.get("X_DALSTON_HEALTH")
        if health == "unhealthy":
            is_half_open = fields.get("X_DALSTON_BREAKER") == BreakerState.HALF_OPEN
            self.breaker_state = BreakerState.HALF_OPEN if is_half_open else BreakerState.OPEN
            self.breaker = fields.get("STATUS", "circuit breaker open")
        elif health:
            self.breaker, self.breaker_state = "", BreakerState.CLOSED

    def ended(self, how: Exit, now: float) -> None:
        """After the process has ended and its tasks are reclaimed."""
        self.last_exits.append(
            ExitReport(
                engine_id=self.engine_id,
                at_ms=_now_ms(),
                kind=str(how.kind),
                text=how.text,
                code=how.code,
                signal=how.signal,
            )
        )
        self.exits += 1
        self.tasks, self.running, self.started_at_ms = (), 0, 0
        if self.gpus and self.child:
            self.dead_pids = (self.child.pid, *(process.pid for process in self.descendants))
            self.died_at = now
        self.child = None
        self.descendants = ()
        self.cpu_percent = self.memory_mib = 0.0
        self.renew_id()

    @property
    def occupied(self) -> bool:
        """True while its GPUs are reserved."""
        return self.child is not None or bool(self.dead_pids)

    @property
    def why(self) -> str:
        return self.reclaiming or self.probe_failing or self.breaker or self.life.why

    @property
    def shown_state(self) -> EngineState:
        if self.reclaiming:
            return EngineState.RECLAIMING
        unhealthy = self.breaker or self.probe_failing
        return EngineState.UNHEALTHY if unhealthy and self.life.state is EngineState.READY else self.life.state

    def beat(self, now: float | None = None) -> EngineBeat:
        """Its heartbeat, as broker.nodes.reports.EngineReport reads it."""
        now = time.monotonic() if now is None else now
        waits = lifecycle.startable(self.life, math.inf) and self.life.retry_at > now
        info: dict[str, Any] = {
            "slot": self.name,
            "engine": self.manifest.id,
            "version": self.manifest.version,
            "pid": self.child.pid if self.child else None,
            "why": self.why,
            "started_at_ms": self.started_at_ms,
            "tasks": self.tasks,
            "running": self.running,
            "exits": self.exits,
            "last_exit": self.last_exits[-1].text if self.last_exits else "",
            "last_exits": list(self.last_exits),
            "breaker": self.breaker_state,
            "probe_failing": bool(self.probe_failing),
            "probe_failures": self.probe_failures,
            "health": self.health,
            "retry_in_s": round(self.life.retry_at - now, 1) if waits else None,
            "cpu_percent": round(self.cpu_percent, 1),
            "memory_mib": round(self.memory_mib, 1),
            "gpus": list(self.gpus),
        }
        return EngineBeat(
            engine_id=self.engine_id,
            state=self.shown_state,
            # A slot without a process serves nothing, and an id that never ran must leave no counters behind.
            queues=self.manifest.queues if self.child else (),
            capabilities=self.manifest.capabilities if self.capabilities is None else self.capabilities,
            capacity=self.manifest.capacity,
            info=info,
        )

    def record(self) -> EngineRecord | None:
        """For the state file; None without a process."""
        if self.child is None:
            return None
        process = Process(self.child.pid, self.child.started_ticks)
        return EngineRecord(self.engine_id, self.manifest.queues, process, self.descendants)


def _now_ms() -> int:
    return int(time.time() * 1000)
