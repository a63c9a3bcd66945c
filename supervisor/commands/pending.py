"""Commands that take time: each is looked at until its deed is done, or can't be any more. Kept over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.protocol.types import EngineState

from .rolling import FAILED

if TYPE_CHECKING:
    from ..process.slot import Slot
    from ..supervisor import Supervisor

ON_THE_WAY = (EngineState.STARTING, EngineState.LOADING, EngineState.DRAINING)


class Undertaking(msgspec.Struct, frozen=True):
    command_id: str
    name: str
    engine: str = ""
    before: tuple[str, ...] = ()  # ids of the processes that have to go
    replicas: int = 0


class Undertakings:
    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.judges = {
            "drain": self._drained,
            "restart": self._restarted,
            "rolling_restart": self._restarted,
            "scale": self._scaled,
        }

    def begin(self, undertaking: Undertaking) -> None:
        self.supervisor.intents.intent.unfinished.append(undertaking)

    def step(self) -> None:
        intents = self.supervisor.intents
        for undertaking in list(intents.intent.unfinished):
            reply = self.judge(undertaking)
            if reply is not None:
                intents.intent.unfinished.remove(undertaking)
                intents.save()
                self.supervisor.link.send(reply)

    def judge(self, undertaking: Undertaking) -> Reply | None:
        """Its end, or None while it goes on."""
        state, message = self.judges[undertaking.name](undertaking)
        return None if state is None else Reply(command_id=undertaking.command_id, state=state, message=message)

    def _drained(self, _undertaking: Undertaking) -> tuple[CommandState | None, str]:
        if not self.supervisor.intents.intent.drained:
            return CommandState.FAILED, "resumed before every engine had stopped"
        left = [slot for slot in self.supervisor.fleet if slot.child is not None]
        stuck = [slot.name for slot in left if slot.life.state is EngineState.UNKILLABLE]
        if len(left) > len(stuck):
            return None, ""
        if stuck:
            return CommandState.FAILED, f"drained, but for what can't be killed: {', '.join(stuck)}"
        return CommandState.DONE, "drained: every engine has stopped"

    def _restarted(self, undertaking: Undertaking) -> tuple[CommandState | None, str]:
        slots = [slot for slot in self.supervisor.fleet.find(undertaking.engine) if not slot.retired]
        slots = slots or self._successors(undertaking)
        if not slots:
            return CommandState.FAILED, f"{undertaking.engine} is gone"
        unwanted = next((slot for slot in slots if not slot.life.wanted), None)
        if unwanted is not None:
            return CommandState.FAILED, f"{unwanted.name} is not started again: {unwanted.why}"
        fresh = [slot for slot in slots if slot.child is None or slot.engine_id not in undertaking.before]
        failed = _failed(fresh)  # a rolling restart ends at the first that fails, and leaves the others alone
        if failed:
            return CommandState.FAILED, failed
        if len(fresh) < len(slots) or not all(_ready(slot) for slot in slots):
            return None, ""
        return CommandState.DONE, f"{len(slots)} of {len(slots)} ready again"

    def _successors(self, undertaking: Undertaking) -> list[Slot]:
        """A process was named by its whole id: the one that came after it is in the same slot."""
        names = {old.rsplit(".", 1)[0] for old in undertaking.before}
        return [slot for slot in self.supervisor.fleet if f"{slot.node}.{slot.name}" in names]

    def _scaled(self, undertaking: Undertaking) -> tuple[CommandState | None, str]:
        engine, count = undertaking.engine, undertaking.replicas
        wish = self.supervisor.intents.intent.replicas.get(engine)
        if wish != count:
            return CommandState.FAILED, f"scaled to {wish} meanwhile"
        fleet = self.supervisor.fleet
        if any(slot.retired and slot.manifest.id == engine and slot.child is not None for slot in fleet):
            return None, ""
        slots = fleet.of(engine)
        if any(slot.life.state in ON_THE_WAY for slot in slots):
            return None, ""
        if failed := _failed(slots):
            return CommandState.FAILED, failed
        waiting = [f"{slot.name} is {slot.shown_state}: {slot.why}" for slot in slots if not _ready(slot)]
        return CommandState.DONE, "; ".join([f"{engine}: {count}", *waiting[:3]])


def _failed(slots: list[Slot]) -> str:
    return next((f"{slot.name} is {slot.life.state}: {slot.why}" for slot in slots if slot.life.state in FAILED), "")


def _ready(slot: Slot) -> bool:
    return slot.life.state is EngineState.READY
