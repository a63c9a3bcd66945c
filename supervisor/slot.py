"""A slot: the place where one process of one engine runs, and is started again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from dalston_queue.broker.registry import EngineBeat
from dalston_queue.broker.types import EngineState
from engines.sdk.manifest import Manifest

from .children import Child
from .exits import Exit
from .policy.lifecycle import Life
from .statefile import EngineRecord, Process


@dataclass(slots=True)
class Slot:
    """What the supervisor holds of it. `life` is changed only by what the policy returns."""

    node: str
    number: int
    manifest: Manifest
    life: Life = field(default_factory=Life)
    child: Child | None = None
    engine_id: str = ""  # of the process that runs, or of the next one
    descendants: tuple[Process, ...] = ()
    oom_kills_before: int = 0
    last_exit: Exit | None = None
    exits: int = 0
    unhealthy: str = ""  # why it takes no work
    gpus: tuple[str, ...] = ()  # UUIDs it is pinned to
    cpu_percent: float = 0.0
    memory_mib: float = 0.0
    retired: bool = False  # scaled away or removed: it goes when its process is gone

    def __post_init__(self) -> None:
        self.renew_id()

    @property
    def name(self) -> str:
        return f"{self.manifest.id}.{self.number}"

    def renew_id(self) -> None:
        """A new boot: no two processes ever share an id."""
        self.engine_id = f"{self.node}.{self.name}.{secrets.token_hex(6)}"

    @property
    def shown_state(self) -> EngineState:
        return EngineState.UNHEALTHY if self.unhealthy and self.life.state is EngineState.READY else self.life.state

    def beat(self) -> EngineBeat:
        info: dict[str, Any] = {
            "slot": self.name,
            "stages": list(self.manifest.queues),
            "version": self.manifest.version,
            "pid": self.child.pid if self.child else None,
            "why": self.unhealthy or self.life.why,
            "exits": self.exits,
            "last_exit": self.last_exit.text if self.last_exit else "",
            "cpu_percent": round(self.cpu_percent, 1),
            "memory_mib": round(self.memory_mib, 1),
            "gpus": list(self.gpus),
        }
        return EngineBeat(
            engine_id=self.engine_id,
            state=self.shown_state,
            # A slot without a process serves nothing, and an id that never ran must leave no counters behind.
            queues=self.manifest.queues if self.child else (),
            capabilities=self.manifest.capabilities,
            capacity=self.manifest.capacity,
            info=info,
        )

    def record(self) -> EngineRecord | None:
        """For the state file; None without a process."""
        if self.child is None:
            return None
        process = Process(self.child.pid, self.child.started_ticks)
        return EngineRecord(self.engine_id, self.manifest.queues, process, self.descendants)
