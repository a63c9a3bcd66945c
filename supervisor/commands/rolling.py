"""Rolling restart: one process at a time, the next one when the last is ready again. The first failure ends it."""

from __future__ import annotations

from collections import deque

import structlog

from dalston_queue.broker.protocol.types import EngineState

from ..process.fleet import Fleet

log = structlog.get_logger("supervisor.rolling")

FAILED = (EngineState.BACKOFF, EngineState.CRASHLOOP, EngineState.FATAL, EngineState.UNKILLABLE)


class Rolling:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.waiting: deque[tuple[str, str]] = deque()  # slot, why
        self.current: tuple[str, str] | None = None  # slot, id of the process that stops

    def begin(self, slots: list[str], why: str) -> int:
        """Adds slots that are not waiting already; returns how many."""
        listed = {slot for slot, _ in self.waiting} | ({self.current[0]} if self.current else set())
        fresh = [slot for slot in slots if slot not in listed]
        self.waiting.extend((slot, why) for slot in fresh)
        return len(fresh)

    def step(self, now: float) -> None:
        if self.current is not None and not self._arrived(*self.current):
            return
        self.current = None
        while self.waiting and self.current is None:
            name, why = self.waiting.popleft()
            slot = self.fleet.slots.get(name)
            if slot is not None and slot.child is not None and slot.life.climb is None:
                self.current = (name, slot.engine_id)
                self.fleet.stop(slot, why, slot.manifest.stop_grace, now)

    def _arrived(self, name: str, old_id: str) -> bool:
        slot = self.fleet.slots.get(name)
        if slot is None:
            return True
        if slot.engine_id == old_id:
            return False
        if slot.life.state in FAILED:
            log.error("rolling restart stopped", engine=name, why=slot.why, untouched=len(self.waiting))
            self.waiting.clear()
            return True
        return slot.life.state is EngineState.READY
