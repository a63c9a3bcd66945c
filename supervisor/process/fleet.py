"""The fleet: all engine slots of the node, and every action on their processes. The policy decides, the fleet acts."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator

import msgspec
import structlog

from dalston_queue.broker.nodes.reports import RunningTask
from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EngineState
from engines.sdk.manifest import Manifest

from ..gpu.gpus import Gpus, Tenant
from ..logs.store import Logs
from ..policy import lifecycle
from ..redis_link import Link, ReclaimWork
from . import children, orphans
from .cgroup import MemoryEvents, OomLedger
from .children import Child
from .environment import Surroundings, environment
from .exits import ExitKind, classify, evidence
from .notices import Notice
from .slot import Slot
from .statefile import Process, StateFile

SPAWN_RETRY_S = 5.0
NO_TASK = "none"  # named as the culprit of a reclaim, so that no task is charged with the delivery

log = structlog.get_logger("supervisor.fleet")


class Fleet:
    """Only for the main loop's thread."""

    def __init__(self, node: str, around: Surroundings, *, link: Link, logs: Logs, gpus: Gpus) -> None:
        self.node = node
        self.around = around
        self.link = link
        self.logs = logs
        self.gpus = gpus
        self.memory = OomLedger(MemoryEvents())
        self.state_file = StateFile(around.state_dir / "engines.json")
        self.slots: dict[str, Slot] = {}
        self.children: dict[int, Child] = {logs.relay.child.pid: logs.relay.child} if logs.relay.child else {}
        self.survivors: dict[str, tuple[Process, ...]] = {}  # of dead engines: descendants that still live
        self.paused = ""  # why engines claim nothing

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self.slots.values()))

    def of(self, engine: str) -> list[Slot]:
        """The slots of one engine."""
        return [slot for slot in self.slots.values() if slot.manifest.id == engine and not slot.retired]

    def find(self, name: str) -> list[Slot]:
        """Slots by engine, slot name or the id of a process."""
        return [slot for slot in self.slots.values() if name in (slot.manifest.id, slot.name, slot.engine_id)]

    # --- slots as planned ---------------------------------------------------------------------------------------------

    def arrange(self, manifests: dict[str, Manifest], replicas: dict[str, int], now: float) -> None:
        """Makes the slots match the plan. Changes nothing else: scaling one engine restarts none."""
        for engine in {slot.manifest.id for slot in self.slots.values()} - set(manifests):
            for slot in self.of(engine):
                self.retire(slot, "its engine.yaml is gone", now)
        for engine, manifest in manifests.items():
            wanted = replicas[engine]
            for slot in self.of(engine):
                if slot.number >= wanted:
                    self.retire(slot, f"scaled to {wanted}", now)
                elif slot.manifest != manifest:
                    self.replace(slot, manifest, now)
            for number in range(wanted):
                self._add(Slot(self.node, number, manifest))

    def _add(self, slot: Slot) -> None:
        present = self.slots.get(slot.name)
        if present is None:
            self.slots[slot.name] = slot
        elif present.retired:  # scaled up again before it was gone
            present.retired = False
            present.manifest = slot.manifest
            present.life = lifecycle.wanted_again(present.life)

    def retire(self, slot: Slot, why: str, now: float) -> None:
        slot.retired = True
        slot.life = lifecycle.unwanted(slot.life)
        self.stop(slot, why, slot.manifest.stop_grace, now)

    def replace(self, slot: Slot, manifest: Manifest, now: float) -> None:
        """Drains the process and starts it again with the new manifest."""
        grace = slot.manifest.stop_grace
        slot.manifest = manifest
        slot.life = lifecycle.reconsidered(slot.life)
        if slot.child is not None:
            self.stop(slot, "its engine.yaml changed", grace, now)

    # --- one slot -----------------------------------------------------------------------------------------------------

    def attend(self, slot: Slot, now: float) -> None:
        """Does what the policy finds due: start, end, or the next signal."""
        if slot.retired and slot.child is None:
            del self.slots[slot.name]
            return
        self._free_gpus(slot)
        if not slot.reclaiming and lifecycle.startable(slot.life, now):
            self._try_start(slot, now)
        overdue = lifecycle.verdict(slot.life, slot.manifest, now)
        if overdue is not None:
            self.end(slot, overdue, now)
        slot.life, rung = lifecycle.climbed(slot.life, now)
        while rung is not None:
            if slot.child is not None:
                log.info("signal", engine_id=slot.engine_id, signal=rung.signal.name, why=slot.life.why)
                children.send(slot.child.pid, rung.signal, whole_group=rung.whole_group)
            slot.life, rung = lifecycle.climbed(slot.life, now)

    def _try_start(self, slot: Slot, now: float) -> None:
        tenants = [Tenant(other.manifest.gpu, other.gpus) for other in self.slots.values() if other.occupied]
        admission = self.gpus.admit(slot.manifest.gpu, tenants)
        if admission.why_not:
            slot.life = lifecycle.waits(slot.life, admission.why_not)
            return
        slot.gpus = admission.gpus
        self.start(slot, now)

    def start(self, slot: Slot, now: float) -> None:
        try:
            argv = children.resolve(slot.manifest.command, slot.manifest.folder)
        except FileNotFoundError as error:
            slot.life = lifecycle.not_spawned(slot.life, str(error))
            log.error("engine can't start", engine=slot.name, why=str(error))
            return
        slot.began()
        env = environment(slot, self.around)
        try:
            output = self.logs.open(slot.name, slot.engine_id)
            slot.child = children.spawn(slot.name, argv, folder=slot.manifest.folder, env=env, output=output)
            self.logs.handed_over(slot.engine_id)
        except OSError as error:  # a full disk, too many processes: it may pass
            self.logs.finish(slot.engine_id)
            slot.life = lifecycle.waits(slot.life, f"can't be started: {error}", until=now + SPAWN_RETRY_S)
            log.error("engine can't start", engine=slot.name, why=str(error))
            return
        self.children[slot.child.pid] = slot.child
        slot.life = lifecycle.spawned(slot.life, now)
        self.save()
        log.info("engine started", engine_id=slot.engine_id, pid=slot.child.pid)

    def stop(self, slot: Slot, why: str, grace: float, now: float) -> None:
        """Drains it: it may finish its tasks within the grace."""
        slot.life = lifecycle.stopping(slot.life, why, grace, now)

    def end(self, slot: Slot, reason: ExitKind, now: float, named: str | None = None) -> None:
        """Ends a hung, late or never ready process. Its tasks are reclaimed first, so its results are refused."""
        log.warning("engine is ended", engine_id=slot.engine_id, why=str(reason))
        slot.life = lifecycle.killing(slot.life, reason, now)
        self.logs.note(slot.name, f"{slot.engine_id} is ended: {reason}")
        message = f"engine {slot.engine_id} was ended: {reason}"
        self._reclaim_work(slot, Cause.ENGINE_LOST, message, {"kind": str(reason)}, named=named, forget=False)

    def end_overdue(self, engine_id: str, task_id: str, now: float) -> None:
        for slot in self.find(engine_id):
            if slot.child and (slot.life.climb is None or slot.life.state is EngineState.DRAINING):
                # The late task is settled already; named as the culprit, it keeps the others from being charged.
                self.end(slot, ExitKind.TIMEOUT, now, named=task_id)

    # --- notices and exits --------------------------------------------------------------------------------------------

    def handle_notice(self, notice: Notice, now: float) -> None:
        """Of an engine's main process or its group; a notice of another process is ignored."""
        slot = self._sender(notice.pid)
        if slot is None:
            log.warning("notice ignored: its sender is no engine of this supervisor", pid=notice.pid)
            return
        if "X_DALSTON_TASKS" in notice.fields:
            self._store_tasks(slot, notice.fields)  # does not feed the watchdog: one task may hang while others end
            return
        before = slot.life.state
        slot.life = lifecycle.noticed(slot.life, notice.fields, now)
        slot.pausable = slot.pausable or notice.fields.get("X_DALSTON_SDK") == "1"
        if "X_DALSTON_CAPABILITIES" in notice.fields:
            names = notice.fields["X_DALSTON_CAPABILITIES"].split(",")
            slot.capabilities = tuple(name for name in names if NAME.fullmatch(name))
        slot.read_breaker(notice.fields)
        if slot.life.state is not before:
            log.info("engine", engine_id=slot.engine_id, state=str(slot.life.state))
            self.apply_pause(slot)

    def _store_tasks(self, slot: Slot, fields: dict[str, str]) -> None:
        """The running tasks of an engine, from its notice; an unreadable notice is ignored."""
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            slot.tasks = msgspec.json.decode(fields["X_DALSTON_TASKS"], type=tuple[RunningTask, ...])
            slot.running = max(len(slot.tasks), int(fields.get("X_DALSTON_RUNNING", "0")))

    def _sender(self, pid: int) -> Slot | None:
        child = self.children.get(pid)
        if child is None:
            with contextlib.suppress(ProcessLookupError):
                child = self.children.get(os.getpgid(pid))
        return self.slots.get(child.name) if child else None

    def ended(self, slot: Slot, returncode: int, now: float) -> None:
        """After its process ended: reclaims its tasks at once, then kills its descendants."""
        self.logs.finish(slot.engine_id)
        tail = self.logs.tail(slot.name, 200, slot.engine_id)
        reason = slot.life.climb.reason if slot.life.climb else ""
        oom_kills = self.memory.claim(now) if returncode == -signal.SIGKILL and not reason else 0
        ended = classify(returncode, stop_reason=reason, oom_kills=oom_kills, log_tail=tail)
        cause = Cause.DRAINED if ended.kind is ExitKind.STOPPED else Cause.ENGINE_LOST
        message = f"engine {slot.engine_id} ended: {ended.text}"
        facts = evidence(ended, tail, self.gpus.monitor.samples, slot.gpus)
        self._reclaim_work(slot, cause, message, facts, named=NO_TASK if cause is Cause.DRAINED else None)
        slot.life = lifecycle.exited(slot.life, ended, now, random.random())  # noqa: S311 (jitter, not a secret)
        log.info("engine ended", engine_id=slot.engine_id, why=ended.text, next=str(slot.life.state))
        self.logs.note(slot.name, f"{slot.engine_id} ended: {ended.text}")
        if not orphans.kill_family(slot.engine_id, slot.descendants):
            self.survivors[slot.engine_id] = slot.descendants
        slot.ended(ended, now)
        self.gpus.monitor.poke()
        self.save()

    def _free_gpus(self, slot: Slot) -> None:
        """Keeps the slot closed while its dead process still holds GPU memory."""
        if slot.dead_pids:
            slot.reclaiming = self.gpus.held_by(slot.dead_pids, slot.died_at)
            if not slot.reclaiming:
                slot.dead_pids = ()
                slot.gpus = ()

    def _reclaim_work(
        self,
        slot: Slot,
        cause: Cause,
        message: str,
        facts: dict[str, object],
        named: str | None = None,
        *,
        forget: bool = True,
    ) -> None:
        error = ErrorInfo(message=message, type="EngineLost", cause=cause, evidence=facts)
        self.link.send(ReclaimWork(slot.engine_id, slot.manifest.queues, cause, error, named, forget))

    # --- all slots ----------------------------------------------------------------------------------------------------

    def pause(self, why: str) -> None:
        """Engines keep their tasks and claim nothing more; an empty reason ends the pause."""
        if why != self.paused:
            self.paused = why
            for slot in self:
                self.apply_pause(slot)

    def apply_pause(self, slot: Slot) -> None:
        should = bool(self.paused or slot.probe_failing)
        if slot.child and slot.pausable and slot.life.state is EngineState.READY and should != slot.is_paused:
            children.send(slot.child.pid, signal.SIGUSR1 if should else signal.SIGUSR2)
            slot.is_paused = should

    def sweep(self) -> None:
        """Kills descendants that outlived their engine."""
        for engine_id, descendants in list(self.survivors.items()):
            log.warning("descendants of a dead engine still live", engine_id=engine_id)
            if orphans.kill_family(engine_id, descendants):
                del self.survivors[engine_id]

    def save(self) -> None:
        records = (slot.record() for slot in self.slots.values())
        self.state_file.write([record for record in records if record is not None])
