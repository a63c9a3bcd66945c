"""Pending commands, checked until done or failed, and the operators' intent; both are kept over restarts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.protocol.types import EngineState

from ..process.statefile import write_whole
from .rolling import FAILED

if TYPE_CHECKING:
    from ..process.slot import Slot
    from ..supervisor import Supervisor

MAX_COMMAND_AGE_S = 60.0
ON_THE_WAY = (EngineState.STARTING, EngineState.LOADING, EngineState.DRAINING)


class PendingCommand(msgspec.Struct, frozen=True):
    command_id: str
    name: str
    engine: str = ""
    before: tuple[str, ...] = ()  # ids of the processes to be replaced
    replicas: int = 0


class Intent(msgspec.Struct):
    """The state that operators want for this node."""

    after: str = ""  # the last command's entry id in its stream
    drained: str = ""  # why, by whom
    cordoned: str = ""
    replicas: dict[str, int] = {}  # by engine id; wins over node.yaml
    unfinished: list[PendingCommand] = []  # pending commands


class IntentFile:
    """Saved before a command is executed: after a crash it is not executed twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.intent = msgspec.json.decode(path.read_bytes(), type=Intent)
        except (OSError, msgspec.MsgspecError):
            # A new node must not execute commands that an earlier node of its name received.
            self.intent = Intent(after=f"{int((time.time() - MAX_COMMAND_AGE_S) * 1000)}-0")

    def save(self) -> None:
        write_whole(self.path, msgspec.json.encode(self.intent))


class PendingCommands:
    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.judges = {
            "drain": self._drained,
            "restart": self._restarted,
            "rolling_restart": self._restarted,
            "scale": self._scaled,
        }

    def begin(self, pending: PendingCommand) -> None:
        self.supervisor.intents.intent.unfinished.append(pending)

    def step(self) -> None:
        intents = self.supervisor.intents
        for pending in list(intents.intent.unfinished):
            reply = self.judge(pending)
            if reply is not None:
                intents.intent.unfinished.remove(pending)
                intents.save()
                self.supervisor.link.send(reply)

    def judge(self, pending: PendingCommand) -> Reply | None:
        """The final reply, or None while it is pending."""
        state, message = self.judges[pending.name](pending)
        return None if state is None else Reply(command_id=pending.command_id, state=state, message=message)

    def _drained(self, _pending: PendingCommand) -> tuple[CommandState | None, str]:
        if not self.supervisor.intents.intent.drained:
            return CommandState.FAILED, "resumed before every engine had stopped"
        left = [slot for slot in self.supervisor.fleet if slot.child is not None]
        stuck = [slot.name for slot in left if slot.life.state is EngineState.UNKILLABLE]
        if len(left) > len(stuck):
            return None, ""
        if stuck:
            return CommandState.FAILED, f"drained, except processes that can't be killed: {', '.join(stuck)}"
        return CommandState.DONE, "drained: every engine has stopped"

    def _restarted(self, pending: PendingCommand) -> tuple[CommandState | None, str]:
        slots = [slot for slot in self.supervisor.fleet.find(pending.engine) if not slot.retired]
        slots = slots or self._successors(pending)
        if not slots:
            return CommandState.FAILED, f"{pending.engine} is gone"
        unwanted = next((slot for slot in slots if not slot.life.wanted), None)
        if unwanted is not None:
            return CommandState.FAILED, f"{unwanted.name} is not started again: {unwanted.why}"
        fresh = [slot for slot in slots if slot.child is None or slot.engine_id not in pending.before]
        failed = _failed(fresh)  # a rolling restart ends with the first failure
        if failed:
            return CommandState.FAILED, failed
        if len(fresh) < len(slots) or not all(_ready(slot) for slot in slots):
            return None, ""
        return CommandState.DONE, f"{len(slots)} of {len(slots)} ready again"

    def _successors(self, pending: PendingCommand) -> list[Slot]:
        """If a process was named by its id: its slot, where the next process runs."""
        names = {old.rsplit(".", 1)[0] for old in pending.before}
        return [slot for slot in self.supervisor.fleet if f"{slot.node}.{slot.name}" in names]

    def _scaled(self, pending: PendingCommand) -> tuple[CommandState | None, str]:
        engine, count = pending.engine, pending.replicas
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
