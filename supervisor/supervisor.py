"""The node's supervisor. One loop: wait, hear what happened, reap, let the policy decide, act, report.

Signal handlers only enqueue, the policy only decides, and Redis is spoken to by another thread (link.py): so nothing
that hangs elsewhere keeps an engine from being watched, stopped or started.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import structlog

from dalston_queue.broker.messages import ErrorInfo
from dalston_queue.broker.types import Cause, NodeState
from engines.sdk.notify import notify

from . import children, orphans
from .cgroup import MemoryEvents
from .children import Child
from .config import NodePlan
from .environment import Surroundings, environment
from .exits import Exit, ExitKind, classify
from .inbox import Inbox
from .link import GiveBack, GivenBack, Link, Overdue, Posted, Report
from .logs import Logs
from .notices import Notice, NoticeSocket
from .policy import lifecycle
from .slot import Slot
from .statefile import StateFile

log = structlog.get_logger("supervisor")

LONGEST_SLEEP = 1.0


class Supervisor:
    """Runs what the plan says until it is told to stop."""

    def __init__(
        self, plan: NodePlan, around: Surroundings, *, link: Link, inbox: Inbox, logs: Logs, notices: NoticeSocket
    ) -> None:
        self.plan = plan
        self.around = around
        self.link = link
        self.inbox = inbox
        self.logs = logs
        self.notices = notices
        self.node = plan.config.node
        self.state_file = StateFile(around.state_dir / "engines.json")
        self.memory = MemoryEvents()
        self.slots: dict[str, Slot] = {}
        self.children: dict[int, Child] = {}
        self.leaving = ""  # why the supervisor ends

    # --- the page -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until every engine is stopped after a TERM. Returns the exit code."""
        self.inbox.watch(self.notices)
        self.arrange()
        notify("READY=1", f"STATUS=node {self.node}")
        while not self.finished():
            self.inbox.wait(self.next_moment() - time.monotonic())
            now = time.monotonic()
            for message in self.inbox.messages():
                self.hear(message, now)
            for notice in self.notices.receive():
                self.listen(notice, now)
            for pid, child, returncode in children.reap(self.children):
                self.bury(pid, child, returncode, now)
            for slot in list(self.slots.values()):
                self.attend(slot, now)
            self.report(now)
        return 0

    def hear(self, message: Posted | signal.Signals, now: float) -> None:
        match message:
            case signal.SIGTERM | signal.SIGINT:
                self.leave(message.name, now)
            case Overdue(engine_id, task_id):
                self.end_overdue(engine_id, task_id, now)
            case GivenBack(engine_id, taken):
                if taken.moved:
                    log.info("gave work back", engine=engine_id, tasks=len(taken.recovered), dead=len(taken.exhausted))

    def attend(self, slot: Slot, now: float) -> None:
        """One slot: what is due, by the policy."""
        if slot.retired and slot.child is None:
            del self.slots[slot.name]
            return
        if lifecycle.startable(slot.life, now):
            self.start(slot, now)
        overdue = lifecycle.verdict(slot.life, slot.manifest, now)
        if overdue is not None:
            self.end(slot, overdue, now)
        slot.life, rung = lifecycle.climbed(slot.life, now)
        while rung is not None:
            if slot.child is not None:
                log.info("signal", engine=slot.engine_id, signal=rung.signal.name, why=slot.life.why)
                children.send(slot.child.pid, rung.signal, whole_group=rung.whole_group)
            slot.life, rung = lifecycle.climbed(slot.life, now)

    def next_moment(self) -> float:
        now = time.monotonic()
        moments = (lifecycle.next_moment(slot.life, slot.manifest, now) for slot in self.slots.values())
        return min(now + LONGEST_SLEEP, *moments, now + LONGEST_SLEEP)

    def finished(self) -> bool:
        return bool(self.leaving) and not any(slot.child for slot in self.slots.values())

    def report(self, now: float) -> None:
        self.link.alive_at = now
        state = NodeState.DRAINING if self.leaving else NodeState.ACTIVE
        info = {"pid": os.getpid(), "labels": self.plan.config.labels, "why": self.leaving}
        self.link.tell(Report(state, tuple(slot.beat() for slot in self.slots.values()), info))

    # --- acting -------------------------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Makes the slots match the plan. What is the same stays untouched."""
        for engine_id, manifest in self.plan.manifests.items():
            for number in range(self.plan.replicas(engine_id)):
                slot = Slot(self.node, number, manifest)
                if slot.name not in self.slots:
                    self.slots[slot.name] = slot

    def start(self, slot: Slot, now: float) -> None:
        try:
            argv = children.resolve(slot.manifest.command, slot.manifest.folder)
        except FileNotFoundError as error:
            slot.life = lifecycle.not_spawned(slot.life, str(error))
            log.error("engine can't start", engine=slot.name, why=str(error))
            return
        slot.oom_kills_before = self.memory.oom_kills()
        slot.unhealthy = ""
        output = self.logs.open(slot.name, slot.engine_id)
        env = environment(slot, self.around)
        slot.child = children.spawn(slot.name, argv, folder=slot.manifest.folder, env=env, output=output)
        self.children[slot.child.pid] = slot.child
        slot.life = lifecycle.spawned(slot.life, now)
        self.save()
        log.info("engine started", engine=slot.engine_id, pid=slot.child.pid)

    def listen(self, notice: Notice, now: float) -> None:
        """A word from an engine. From its main process or its group, or it is nobody's."""
        slot = self.slot_of(notice.pid)
        if slot is None:
            log.warning("a notice of a process that is no engine of ours was ignored", pid=notice.pid)
            return
        before = slot.life.state
        slot.life = lifecycle.noticed(slot.life, notice.fields, now)
        health = notice.fields.get("X_DALSTON_HEALTH")
        if health:
            slot.unhealthy = notice.fields.get("STATUS", "unhealthy") if health == "unhealthy" else ""
        if slot.life.state is not before:
            log.info("engine", engine=slot.engine_id, state=str(slot.life.state))

    def slot_of(self, pid: int) -> Slot | None:
        child = self.children.get(pid)
        if child is None:
            with contextlib.suppress(ProcessLookupError):
                child = self.children.get(os.getpgid(pid))
        return self.slots.get(child.name) if child else None

    def end(self, slot: Slot, reason: ExitKind, now: float, named: str | None = None) -> None:
        """Hung, late, or never ready. Its work is taken away first: whatever it still does will be refused."""
        log.warning("engine is ended", engine=slot.engine_id, why=str(reason))
        slot.life = lifecycle.killing(slot.life, reason, now)
        self.logs.note(slot.name, f"{slot.engine_id} is ended: {reason}")
        message = f"engine {slot.engine_id} was ended: {reason}"
        self.give_back(slot, Cause.ENGINE_LOST, message, {"kind": str(reason)}, named=named, forget=False)

    def end_overdue(self, engine_id: str, task_id: str, now: float) -> None:
        for slot in self.slots.values():
            if slot.engine_id == engine_id and slot.child and slot.life.climb is None:
                # The late task is settled; the others are innocent, so the blame is named and falls on nobody.
                self.end(slot, ExitKind.TIMEOUT, now, named=task_id)

    def bury(self, pid: int, child: Child | None, returncode: int, now: float) -> None:
        """A process of ours ended: its work goes back at once, then the rest is cleaned up."""
        self.children.pop(pid, None)
        slot = self.slots.get(child.name) if child else None
        if slot is None or slot.child is not child:
            return
        self.logs.finish(slot.engine_id)
        tail = self.logs.tail(slot.name, 200, slot.engine_id)
        reason = slot.life.climb.reason if slot.life.climb else ""
        oom_kills = self.memory.oom_kills() - slot.oom_kills_before
        ended = classify(returncode, stop_reason=reason, oom_kills=oom_kills, log_tail=tail)
        self.give_back_after(slot, ended, tail)
        slot.life = lifecycle.exited(slot.life, ended, now, random.random())  # noqa: S311 (jitter, not a secret)
        slot.last_exit = ended
        slot.exits += 1
        slot.child = None
        log.info("engine ended", engine=slot.engine_id, why=ended.text, next=str(slot.life.state))
        self.logs.note(slot.name, f"{slot.engine_id} ended: {ended.text}")
        orphans.kill_family(slot.engine_id, slot.descendants)
        slot.descendants = ()
        slot.renew_id()
        self.save()

    def give_back_after(self, slot: Slot, ended: Exit, tail: list[str]) -> None:
        evidence: dict[str, object] = {
            "kind": str(ended.kind),
            "exit_code": ended.code,
            "signal": ended.signal,
            "log": [line[-500:] for line in tail],
        }
        cause = Cause.DRAINED if ended.kind is ExitKind.STOPPED else Cause.ENGINE_LOST
        self.give_back(slot, cause, f"engine {slot.engine_id} ended: {ended.text}", evidence)

    def give_back(
        self,
        slot: Slot,
        cause: Cause,
        message: str,
        evidence: dict[str, object],
        *,
        named: str | None = None,
        forget: bool = True,
    ) -> None:
        error = ErrorInfo(message=message, type="EngineLost", cause=cause, evidence=evidence)
        self.link.give_back(GiveBack(slot.engine_id, slot.manifest.queues, cause, error, named, forget))

    def leave(self, why: str, now: float) -> None:
        """Drains and stops everything; the second time, without the patience."""
        hurry = bool(self.leaving)
        self.leaving = why
        log.info("stopping all engines", why=why)
        notify("STOPPING=1")
        for slot in self.slots.values():
            slot.life = lifecycle.unwanted(slot.life)
            grace = 0.0 if hurry else slot.manifest.stop_grace
            slot.life = lifecycle.stopping(slot.life, f"supervisor stops: {why}", grace, now)

    def save(self) -> None:
        records = (slot.record() for slot in self.slots.values())
        self.state_file.write([record for record in records if record is not None])
