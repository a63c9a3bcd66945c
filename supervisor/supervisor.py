"""The supervisor's main loop: wait, handle events, reap, let the policy decide, act, report.

Signal handlers only enqueue, the policy only decides, and another thread speaks to Redis (redis_link.py): so no hang
elsewhere keeps an engine from being watched, stopped or started.
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
from .process.usage import Usage, disk_used
from .redis_link import Link, Report

log = structlog.get_logger("supervisor")

MAX_SLEEP_S = 1.0
NVIDIA_DRIVER = Path("/proc/driver/nvidia")


class Supervisor:
    """Runs the engines of the plan until SIGTERM."""

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
        self.leaving = ""  # why the supervisor ends; empty: it does not
        self.spot = ""  # the notice of the cloud
        self.failing = ""  # why the node cordoned itself
        self.config_error = ""

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self, notices: NoticeSocket) -> int:
        """Runs until every engine is stopped after a TERM. Returns the exit code."""
        self.inbox.watch(notices)
        self.arrange(time.monotonic())
        notify("READY=1", f"STATUS=node {self.plan.config.node}")
        while not self.finished():
            self.inbox.wait(self.next_moment() - time.monotonic())
            now = time.monotonic()
            self.fleet.memory.poll(now)
            for message in self.inbox.messages():
                self.handle(message, now)
            for notice in notices.receive():
                self.fleet.handle_notice(notice, now)
            for pid, returncode in children.reap(self.fleet.children):
                self.reaped(pid, returncode, now)
            self.poll_gpus(now)
            for slot in self.fleet:
                self.fleet.attend(slot, now)
            self.step(now)
            self.report(now)
        return 0

    def handle(self, message: Event | signal.Signals, now: float) -> None:
        match message:
            case signal.SIGTERM | signal.SIGINT:
                self.shut_down(message.name, now)
            case signal.SIGHUP:
                self.reload(now)
            case Overdue(engine_id, task_id):
                self.fleet.end_overdue(engine_id, task_id, now)
            case Commanded(command):
                self.commands.handle(command, now)
            case SpotNotice(seconds, why):
                self.on_spot_notice(seconds, why, now)
            case Probed():
                self.probes.judge(message)
            case WorkReclaimed(engine_id, reclaimed):
                if reclaimed.moved:
                    log.info(
                        "work reclaimed",
                        engine_id=engine_id,
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

    def poll_gpus(self, now: float) -> None:
        """Reads the probe, kills it when the driver hangs, and stops engines on GPUs with errors."""
        monitor = self.gpus.monitor
        for uuid, response in self.gpus.read(now):
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
        """False on a node without a driver and without engines that need a GPU: it needs no probe."""
        if NVIDIA_DRIVER.exists() or any(manifest.gpu for manifest in self.plan.manifests.values()):
            return True
        self.gpus.monitor.reading = Reading(problem="no NVIDIA driver here, and no engine asks for a GPU")
        return False

    def step(self, now: float) -> None:
        """One round of everything that is not about one slot: commands, probes, logs, reload, cordon."""
        self.rolling.step(now)
        self.pending.step()
        self.probes.step(now)
        self.followers.step(now)
        relay = self.fleet.logs.check_relay(now)
        if relay is not None:
            self.fleet.children[relay.pid] = relay
        if self.usage.due(now):
            self.usage.sample(now)
            self.fleet.sweep()
        if self.watch.changed(now):
            self.reload(now)
        lives = [slot.life for slot in self.fleet]
        self.failing = "" if node.recovered(lives, now) else node.cordon_reason(lives)
        self.fleet.pause(self.intents.intent.cordoned or self.spot or self.failing)
        notify("WATCHDOG=1", timeout_s=0.0)  # the next one comes within a second

    def next_moment(self) -> float:
        now = time.monotonic()
        moments = [lifecycle.next_moment(slot.life, slot.manifest, now) for slot in self.fleet if not slot.reclaiming]
        moments.append(self.followers.next_moment(now))
        # A slot that may not start yet waits for an event, not for a time: no busy loop for it.
        return min([now + MAX_SLEEP_S, *(moment for moment in moments if moment > now)])

    def finished(self) -> bool:
        """True when the supervisor may exit. It does not wait for a process that can't be killed."""
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
        """Applies the changed files; one that can't be used changes nothing."""
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
        """Stops all engines: they claim nothing more and finish their tasks within the grace."""
        for slot in self.fleet:
            slot.life = lifecycle.unwanted(slot.life)
            allowed = slot.manifest.stop_grace if grace is None else min(grace, slot.manifest.stop_grace)
            self.fleet.stop(slot, why, allowed, now)

    def resume(self) -> None:
        for slot in self.fleet:
            if not slot.retired:
                slot.life = lifecycle.wanted_again(slot.life)

    def on_spot_notice(self, seconds: float | None, why: str, now: float) -> None:
        """Drains within the time of the notice. A mere recommendation only cordons."""
        self.spot = why
        log.warning("spot notice", why=why, seconds=seconds)
        if seconds is not None:
            self.drain(why, now, grace=max(0.0, seconds - 5.0))

    def shut_down(self, why: str, now: float) -> None:
        """Drains all engines; the second call ends their grace."""
        second = bool(self.leaving)
        self.leaving = f"supervisor stops ({why})"
        log.info("stopping all engines", why=why)
        notify("STOPPING=1")
        self.drain(self.leaving, now, grace=0.0 if second else None)

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
            "disk_used": disk_used(self.around.state_dir),
            "drain": self.drain_report(now) if draining else None,
        }
        self.link.alive_at = now
        self.link.publish(Report(state, tuple(slot.beat(now) for slot in self.fleet), info))

    def drain_report(self, now: float) -> DrainReport:
        left = (Leaving(slot.life, slot.tasks, slot.running) for slot in self.fleet if slot.child is not None)
        return drain_report(left, now, int(time.time() * 1000))
