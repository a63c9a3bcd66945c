"""Commands from the API: each is obeyed once, answered, and harmless when given twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from dalston_queue.broker.commands import Command, Reply

if TYPE_CHECKING:
    from .supervisor import Supervisor

log = structlog.get_logger("supervisor.orders")

MOST_REPLICAS = 256
COMMANDS = (
    "drain", "resume", "cordon", "uncordon", "restart", "rolling_restart", "scale", "release_gpu", "tail_logs",
    "follow_logs",
)  # fmt: skip


class RefusedError(Exception):
    """The command can't be carried out; the message says why."""


class Orders:
    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.known: dict[str, Callable[[Command, float], str]] = {name: getattr(self, name) for name in COMMANDS}

    def obey(self, command: Command, now: float) -> None:
        """Remembers it, does it, answers. The log line is the node's own record; the API keeps the audit."""
        intents = self.supervisor.intents
        intents.intent.after = command.command_id
        intents.save()  # before the deed: a crash in between must not repeat a restart
        try:
            message, ok = self.known.get(command.name, self.unknown)(command, now), True
        except RefusedError as error:
            message, ok = str(error), False
        intents.save()
        log.info("command", name=command.name, actor=command.actor, arguments=command.arguments, ok=ok, answer=message)
        self.supervisor.link.send(Reply(command_id=command.command_id, ok=ok, message=message))

    def unknown(self, command: Command, _now: float) -> str:
        raise RefusedError(f"unknown command {command.name!r}: this node knows {', '.join(sorted(self.known))}")

    # --- the node -----------------------------------------------------------------------------------------------------

    def drain(self, command: Command, now: float) -> str:
        intent = self.supervisor.intents.intent
        if intent.drained:
            return f"already drained: {intent.drained}"
        intent.drained = _why(command, "drained")
        self.supervisor.drain(intent.drained, now)
        return "draining: engines finish or hand back what they hold, then stop"

    def resume(self, _command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if not intent.drained and not self.supervisor.spot:
            return "the node is not drained"
        intent.drained = self.supervisor.spot = ""  # a cloud may change its mind; people know
        self.supervisor.resume()
        return "engines start again"

    def cordon(self, command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if intent.cordoned:
            return f"already cordoned: {intent.cordoned}"
        intent.cordoned = _why(command, "cordoned")
        return "engines keep what they have and take nothing new"

    def uncordon(self, _command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if not intent.cordoned and not self.supervisor.spot:
            return "the node is not cordoned"
        intent.cordoned = self.supervisor.spot = ""
        return "engines take work again"

    def release_gpu(self, command: Command, now: float) -> str:
        uuid = _text(command, "gpu")
        if not self.supervisor.gpus.release(uuid, now):
            raise RefusedError(f"GPU {uuid!r} is not quarantined")
        return f"GPU {uuid} is on probation"

    # --- engines ------------------------------------------------------------------------------------------------------

    def restart(self, command: Command, now: float) -> str:
        fleet = self.supervisor.fleet
        name = _text(command, "engine")
        slots = fleet.find(name)
        if not slots:
            raise RefusedError(f"no engine {name!r} on this node")
        restarted = 0
        for slot in slots:
            if slot.child is None:
                slot.reconsider()
                restarted += 1
            elif slot.life.climb is None:
                fleet.stop(slot, _why(command, "restarted"), slot.manifest.stop_grace, now)
                restarted += 1
        return f"restarting {restarted} of {len(slots)}" if restarted else "already on its way"

    def rolling_restart(self, command: Command, _now: float) -> str:
        engine = _text(command, "engine")
        slots = self.supervisor.fleet.of(engine)
        if not slots:
            raise RefusedError(f"no engine {engine!r} on this node")
        added = self.supervisor.rolling.begin([slot.name for slot in slots], _why(command, "rolling restart"))
        return f"restarting {added} one after the other" if added else "already on its way"

    def scale(self, command: Command, now: float) -> str:
        engine = _text(command, "engine")
        count = command.arguments.get("replicas")
        if engine not in self.supervisor.plan.manifests:
            raise RefusedError(f"no engine {engine!r} on this node")
        if type(count) is not int or not 0 <= count <= MOST_REPLICAS:
            raise RefusedError(f"replicas must be a number from 0 to {MOST_REPLICAS}, not {count!r}")
        before = len(self.supervisor.fleet.of(engine))
        self.supervisor.intents.intent.replicas[engine] = count
        self.supervisor.arrange(now)
        return f"{engine}: {before} -> {count}" if before != count else f"{engine}: already {count}"

    # --- logs ---------------------------------------------------------------------------------------------------------

    def tail_logs(self, command: Command, _now: float) -> str:
        slot = self._slot(command)
        lines = self.supervisor.fleet.logs.tail(slot, int(command.arguments.get("lines", 200)))
        self.supervisor.followers.send(slot, lines)
        return f"{len(lines)} lines sent"

    def follow_logs(self, command: Command, now: float) -> str:
        slot = self._slot(command)
        seconds = min(float(command.arguments.get("seconds", 60)), 600.0)
        self.supervisor.followers.follow(slot, now + seconds)
        return f"following for {seconds:.0f} s"

    def _slot(self, command: Command) -> str:
        name = _text(command, "engine")
        slots = self.supervisor.fleet.find(name)
        if not slots:
            raise RefusedError(f"no engine {name!r} on this node")
        return slots[0].name


def _text(command: Command, name: str) -> str:
    value: Any = command.arguments.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedError(f"{command.name} needs {name!r}")
    return value


def _why(command: Command, what: str) -> str:
    reason = command.arguments.get("reason", "")
    return f"{what} by {command.actor or 'an operator'}" + (f": {reason}" if reason else "")
