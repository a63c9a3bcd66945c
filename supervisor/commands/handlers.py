"""Handlers of the commands from the API, one method per command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from dalston_queue.broker.nodes.commands import LOG_COMMANDS, MAX_REPLICAS, Command, CommandState, NodeCommand, Reply
from dalston_queue.broker.nodes.logs import MAX_LINES, node_and_slot

from ..logs.reader import Span, lines_of, stamp_of
from ..policy import lifecycle
from ..redis_link import LogLines
from .pending import PendingCommand

if TYPE_CHECKING:
    from ..supervisor import Supervisor

log = structlog.get_logger("supervisor.commands")

SLOT = re.compile(r"[a-z][a-z0-9_-]{0,40}\.\d{1,4}")
_SPAN = ("since_ms", "until_ms")
COMMANDS = (*(command.value for command in NodeCommand), *LOG_COMMANDS)


class RefusedError(Exception):
    """The command can't be executed; the message says why."""


class Commands:
    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.known: dict[str, Callable[[Command, float], str]] = {name: getattr(self, name) for name in COMMANDS}

    def handle(self, command: Command, now: float) -> None:
        """Saves the entry id, executes the command and replies. The log is the node's record; the API has the audit."""
        intents = self.supervisor.intents
        if not command.asks:
            intents.intent.after = command.entry_id
            intents.save()  # before it is executed: a crash must not repeat a restart
        begun = len(intents.intent.unfinished)
        try:
            message = self.known.get(command.name, self.unknown)(command, now)
            state = CommandState.TAKEN if len(intents.intent.unfinished) > begun else CommandState.DONE
        except RefusedError as error:
            message, state = str(error), CommandState.FAILED
        if command.name not in LOG_COMMANDS:  # pages send them every minute, and they change nothing
            intents.save()
            details = {"actor": command.actor, "arguments": command.arguments}
            log.info("command", name=command.name, state=str(state), answer=message, **details)
        self.supervisor.link.send(Reply(command_id=command.command_id, state=state, message=message))

    def keep_pending(self, command: Command, engine: str = "", before: tuple[str, ...] = (), replicas: int = 0) -> None:
        """For a command that takes time: its final reply follows when it is done."""
        self.supervisor.pending.begin(PendingCommand(command.command_id, command.name, engine, before, replicas))

    def unknown(self, command: Command, _now: float) -> str:
        raise RefusedError(f"unknown command {command.name!r}: this node knows {', '.join(sorted(self.known))}")

    # --- the node -----------------------------------------------------------------------------------------------------

    def drain(self, command: Command, now: float) -> str:
        intent = self.supervisor.intents.intent
        self.keep_pending(command)
        if intent.drained:
            return f"already drained: {intent.drained}"
        intent.drained = _why(command, "drained")
        self.supervisor.drain(intent.drained, now)
        return "draining: engines finish or release what they hold, then stop"

    def resume(self, _command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if not intent.drained and not self.supervisor.spot:
            return "the node is not drained"
        intent.drained = self.supervisor.spot = ""  # the operator knows better than the notice
        self.supervisor.resume()
        return "engines start again"

    def cordon(self, command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if intent.cordoned:
            return f"already cordoned: {intent.cordoned}"
        intent.cordoned = _why(command, "cordoned")
        return "engines keep their tasks and claim nothing more"

    def uncordon(self, _command: Command, _now: float) -> str:
        intent = self.supervisor.intents.intent
        if not intent.cordoned and not self.supervisor.spot:
            return "the node is not cordoned"
        intent.cordoned = self.supervisor.spot = ""
        return "engines claim tasks again"

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
        self.keep_pending(command, name, tuple(slot.engine_id for slot in slots if slot.child is not None))
        restarted = 0
        for slot in slots:
            if slot.child is None:
                slot.life = lifecycle.reconsidered(slot.life)
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
        self.keep_pending(command, engine, tuple(slot.engine_id for slot in slots if slot.child is not None))
        added = self.supervisor.rolling.begin([slot.name for slot in slots], _why(command, "rolling restart"))
        return f"restarting {added} one after the other" if added else "already on its way"

    def scale(self, command: Command, now: float) -> str:
        engine = _text(command, "engine")
        count = command.arguments.get("replicas")
        if engine not in self.supervisor.plan.manifests:
            raise RefusedError(f"no engine {engine!r} on this node")
        if type(count) is not int or not 0 <= count <= MAX_REPLICAS:
            raise RefusedError(f"replicas must be a number from 0 to {MAX_REPLICAS}, not {count!r}")
        before = len(self.supervisor.fleet.of(engine))
        self.supervisor.intents.intent.replicas[engine] = count
        self.supervisor.arrange(now)
        self.keep_pending(command, engine, replicas=count)
        return f"{engine}: {before} -> {count}" if before != count else f"{engine}: already {count}"

    # --- logs ---------------------------------------------------------------------------------------------------------

    def tail_logs(self, command: Command, _now: float) -> str:
        slot, engine_id = self._log_of(command)
        span = Span(*(stamp_of(_number(command, name, 0)) if name in command.arguments else b"" for name in _SPAN))
        count = min(_number(command, "lines", 200), MAX_LINES)
        containing = _text(command, "containing") if "containing" in command.arguments else ""
        lines = self.supervisor.fleet.logs.last(slot, count, span, search=bool(containing))
        if engine_id:
            lines = lines_of(engine_id, lines)
        if containing:
            lines = [each for each in lines if containing in each.text][-count:]
        self.supervisor.link.send(LogLines(slot, lines, command.command_id))
        return f"{len(lines)} lines sent"

    def follow_logs(self, command: Command, now: float) -> str:
        slot, _ = self._log_of(command)
        seconds = min(_number(command, "seconds", 60), 600)
        self.supervisor.followers.follow(slot, now + seconds)
        return f"following for {seconds} s"

    def _log_of(self, command: Command) -> tuple[str, str]:
        """The slot of the log, and the process if one is named: also one that has ended."""
        name = _text(command, "engine")
        slots = self.supervisor.fleet.find(name)
        if slots:
            return slots[0].name, name if name == slots[0].engine_id else ""
        node, slot = node_and_slot(name) or ("", name)
        here = node in ("", self.supervisor.plan.config.node)
        if here and SLOT.fullmatch(slot) and self.supervisor.fleet.logs.has(slot):
            return slot, name if node else ""
        raise RefusedError(f"no engine {name!r} on this node, and no log of it")


def _text(command: Command, name: str) -> str:
    value: Any = command.arguments.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedError(f"{command.name} needs {name!r}")
    return value


def _number(command: Command, name: str, default: int) -> int:
    value: Any = command.arguments.get(name, default)
    if type(value) not in (int, float) or not 0 <= value < 1 << 53:
        raise RefusedError(f"{command.name}: {name!r} must be a number, not {value!r}")
    return int(value)


def _why(command: Command, what: str) -> str:
    reason = command.arguments.get("reason", "")
    return f"{what} by {command.actor or 'an operator'}" + (f": {reason}" if reason else "")
