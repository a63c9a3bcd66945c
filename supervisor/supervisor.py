"""The node's supervisor. One loop: wait, handle events, reap, let the policy decide, act, report.

Signal handlers only enqueue, the policy only decides, and another thread speaks to Redis (redis_link.py): so nothing
that hangs elsewhere keeps an engine from being watched, stopped or started.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import structlog

from dalston_queue.broker.nodes.reports import DrainReport
from dalston_queue.broker.protocol.types import EngineState, NodeState
from engines.sdk.manifest import ManifestError
from engines.sdk.notify import notify

from .commands.handlers import Commands
from .commands.pending import IntentFile, PendingCommands
from .commands.rolling import Rolling
from .config import NodePlan, Watch
from .events import Commanded, Event, Overdue, Probed, SpotNotice, WorkReclaimed
from .gpu.gpus import Gpus
from .gpu.monitor import NAME as GPU_PROBE
from .gpu.reading import Reading
from .inbox import Inbox
from .logs.follow import Followers
from .logs.pipes import NAME as LOG_RELAY
from .policy import lifecycle, node
from .policy.node import Leaving, drain_report
from .process import children
from .process.environment import Surroundings, environment_of_helpers
from .process.fleet import Fleet
from .process.notices import NoticeSocket
from .process.probes import Probes
from .process.usage import Usage
from .redis_link import Link, Report

log = structlog.get_logger("supervisor")

LONGEST_SLEEP = 1.0
NVIDIA_DRIVER = Path("/proc/driver/nvidia")


class Supervisor:
    """Runs what the plan says until it is asked to stop."""

    def __init__(
        self, plan: NodePlan, around: Surroundings, *, fleet: Fleet, link: Link, inbox: Inbox, watch: Watch
    ) -> None:
        self.plan = plan
        self.around = around
        self.fleet = fleet
        self.link = link
        self.inbox = inbox
        self.watch = watch
        self.gpus: Gpus = fleet.gpus
        self.intents = IntentFile(around.state_dir / "intent.json")
        self.commands = Commands(self)
        self.pending = PendingCommands(self)
        self.rolling = Rolling(fleet)
        self.probes = Probes(fleet, inbox.post)
        self.followers = Followers(fleet, link)
        self.usage = Usage(fleet)
        self.leaving = ""  # why the supervisor ends
        self.spot = ""  # the notice of the cloud
        self.failing = ""  # why the node cordoned itself
        self.config_error = ""

    # --- the page -----------------------------------------------------------------------------------------------------

    def run(self, notices: NoticeSocket) -> int:
        """Until every engine is stopped after a TERM. Returns the exit code."""
        self.inbox.watch(notices)
        self.arrange(time.monotonic())
        notify("READY=1", f"STATUS=node {self.plan.config.node}")
        while not self.finished():
            self.inbox.wait(self.next_moment() - time.monotonic())
            now = time.monotonic()
            self.fleet.memory.look(now)
            for message in self.inbox.messages():
                self.hear(message, now)
            for notice in notices.receive():
                self.fleet.listen(notice, now)
            for pid, returncode in children.reap(self.fleet.children):
                self.reaped(pid, returncode, now)
            self.look_at_gpus(now)
            for slot in self.fleet:
                self.fleet.attend(slot, now)
            self.keep_order(now)
            self.report(now)
        return 0

    def hear(self, message: Event | signal.Signals, now: float) -> None:
        match message:
            case signal.SIGTERM | signal.SIGINT:
                self.leave(message.name, now)
            case signal.SIGHUP:
                self.reload(now)
            case Overdue(engine_id, task_id):
                self.fleet.end_overdue(engine_id, task_id, now)
            case Commanded(command):
                self.commands.handle(command, now)
            case SpotNotice(seconds, why):
                self.prepare_for_the_end(seconds, why, now)
            case Probed():
                self.probes.judge(message)
            case WorkReclaimed(engine_id, reclaimed):
                if reclaimed.moved:
                    log.info(
                        "work reclaimed",
                        engine=engine_id,
                        tasks=len(reclaimed.recovered),
                        dead=len(reclaimed.exhausted),
                    )

    def reaped(self, pid: int, returncode: int, now: float) -> None:
        child = self.fleet.children.pop(pid, None)
        if child is None:
            return  # an adopted orphan
        if child.name == GPU_PROBE:
            self.inbox.unwatch(self.gpus.monitor)
            self.gpus.monitor.exited(now)
        elif child.name == LOG_RELAY:
            self.fleet.logs.relay.exited()
        elif child.name.startswith("probe:"):
            self.probes.ended(child, returncode)
        else:
            slot = self.fleet.slots.get(child.name)
            if slot is not None and slot.child is child:
                self.fleet.ended(slot, returncode, now)

    def look_at_gpus(self, now: float) -> None:
        """Reads the probe's lines, ends it when the driver hangs, and acts on GPUs in trouble."""
        monitor = self.gpus.monitor
        for uuid, response in self.gpus.hear(now):
            for slot in self.fleet:
                if uuid in slot.gpus and (response.restart_engines or response.evict_engines):
                    grace = 1.0 if response.evict_engines else slot.manifest.stop_grace
                    self.fleet.stop(slot, f"GPU trouble: Xid {response.health.last_xid} on {uuid}", grace, now)
        monitor.tick(now)
        if not self.leaving and monitor.startable(now) and self.gpus_matter():
            child = monitor.start(now, environment_of_helpers(self.around))
            self.fleet.children[child.pid] = child
            self.inbox.watch(monitor)

    def gpus_matter(self) -> bool:
        """On a node without a driver, and without engines that want a GPU, no probe is needed."""
        if NVIDIA_DRIVER.exists() or any(manifest.gpu for manifest in self.plan.manifests.values()):
            return True
        self.gpus.monitor.reading = Reading(problem="no NVIDIA driver here, and no engine asks for a GPU")
        return False

    def keep_order(self, now: float) -> None:
        """What concerns the node as a whole."""
        self.rolling.step(now)
        self.pending.step()
        self.probes.step(now)
        self.followers.step(now)
        relay = self.fleet.logs.look_after_relay(now)
        if relay is not None:
            self.fleet.children[relay.pid] = relay
        if self.usage.due(now):
            self.usage.sample(now)
            self.fleet.sweep()
        if self.watch.changed(now):
            self.reload(now)
        lives = [slot.life for slot in self.fleet]
        self.failing = "" if node.recovered(lives, now) else node.everything_dies(lives)
        self.fleet.pause(self.intents.intent.cordoned or self.spot or self.failing)
        notify("WATCHDOG=1", timeout_s=0.0)  # the next one comes within a second

    def next_moment(self) -> float:
        now = time.monotonic()
        moments = [lifecycle.next_moment(slot.life, slot.manifest, now) for slot in self.fleet if not slot.reclaiming]
        moments.append(self.followers.next_moment(now))
        # A slot that could start but may not waits for an event, not for a time: don't spin on it.
        return min([now + LONGEST_SLEEP, *(moment for moment in moments if moment > now)])

    def finished(self) -> bool:
        """One that can't be killed is not waited for: it is the kernel's now."""
        return bool(self.leaving) and not any(
            slot.child and slot.life.state is not EngineState.UNKILLABLE for slot in self.fleet
        )

    # --- the node -----------------------------------------------------------------------------------------------------

    def arrange(self, now: float) -> None:
        wishes = self.intents.intent.replicas
        replicas = {engine: wishes.get(engine, self.plan.replicas(engine)) for engine in self.plan.manifests}
        self.fleet.arrange(self.plan.manifests, replicas, now)
        if self.intents.intent.drained:
            self.drain(self.intents.intent.drained, now)

    def reload(self, now: float) -> None:
        """A file that can't be used leaves everything as it is."""
        try:
            plan = self.watch.read()
            self.check_same_node(plan)
        except ManifestError as error:
            self.config_error = str(error)
            log.error("configuration not reloaded", why=str(error))
            return
        self.config_error = ""
        self.plan = plan
        self.gpus.allowed, self.gpus.headroom_mib = plan.config.gpus, plan.config.vram_headroom_mib
        log.info("configuration reloaded", engines=sorted(plan.manifests))
        self.arrange(now)

    def check_same_node(self, plan: NodePlan) -> None:
        if plan.config.node != self.plan.config.node:
            raise ManifestError(f"the node's id changed to {plan.config.node}: restart the supervisor for that")

    def drain(self, why: str, now: float, grace: float | None = None) -> None:
        """No new work; what runs may finish within its grace; then the engines are stopped."""
        for slot in self.fleet:
            slot.life = lifecycle.unwanted(slot.life)
            allowed = slot.manifest.stop_grace if grace is None else min(grace, slot.manifest.stop_grace)
            self.fleet.stop(slot, why, allowed, now)

    def resume(self) -> None:
        for slot in self.fleet:
            if not slot.retired:
                slot.life = lifecycle.wanted_again(slot.life)

    def prepare_for_the_end(self, seconds: float | None, why: str, now: float) -> None:
        """The cloud takes the machine: finish what fits the notice. A mere hint only cordons."""
        self.spot = why
        log.warning("spot notice", why=why, seconds=seconds)
        if seconds is not None:
            self.drain(why, now, grace=max(0.0, seconds - 5.0))

    def leave(self, why: str, now: float) -> None:
        """Drains and stops everything; the second time without a grace."""
        hurry = bool(self.leaving)
        self.leaving = f"supervisor stops ({why})"
        log.info("stopping all engines", why=why)
        notify("STOPPING=1")
        self.drain(self.leaving, now, grace=0.0 if hurry else None)

    def report(self, now: float) -> None:
        intent = self.intents.intent
        draining = (
            self.leaving or intent.drained or (self.spot if not any(slot.life.wanted for slot in self.fleet) else "")
        )
        cordoned = intent.cordoned or self.spot or self.failing
        state = NodeState.DRAINING if draining else NodeState.CORDONED if cordoned else NodeState.ACTIVE
        info = {
            "pid": os.getpid(),
            "labels": self.plan.config.labels,
            "why": draining or cordoned,
            "config_error": self.config_error,
            "gpus": self.gpus.describe(now),
            "drain": self.drain_report(now) if draining else None,
        }
        self.link.alive_at = now
        self.link.tell(Report(state, tuple(slot.beat(now) for slot in self.fleet), info))

    def drain_report(self, now: float) -> DrainReport:
        left = (Leaving(slot.life, slot.tasks, slot.running) for slot in self.fleet if slot.child is not None)
        return drain_report(left, now, int(time.time() * 1000))
