"""Builds a supervisor, runs it and closes it: node lock, clean-up, logs, notify socket, Redis link, main loop."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause

from .config import NodePlan, Watch
from .gpu.gpus import Gpus
from .gpu.monitor import GpuMonitor
from .http import NodeServer
from .inbox import Inbox
from .logs.store import Logs
from .process import orphans
from .process.environment import Surroundings, environment_of_helpers
from .process.fleet import Fleet
from .process.linux import become_subreaper, raise_file_limit
from .process.notices import NoticeSocket
from .process.statefile import EngineRecord, StateFile
from .redis_link import Link, ReclaimWork
from .spot import SpotWatch
from .supervisor import Supervisor

log = structlog.get_logger("supervisor")


@dataclass(frozen=True, slots=True)
class Options:
    """From the command line and the settings."""

    state_dir: Path
    redis_url: str
    prefix: str
    heartbeat_s: float
    max_deliveries: int
    max_losses: int
    artifacts_url: str


def run(plan: NodePlan, options: Options, broker: Broker, watch: Watch) -> int:
    """Runs a supervisor from start to exit code. Raises AlreadyRunningError if the node has one, AddressInUseError."""
    node = plan.config.node
    options.state_dir.mkdir(parents=True, exist_ok=True)
    state_dir = options.state_dir.resolve()
    lock = NodeLock(state_dir / "lock", node)
    become_subreaper()
    left = StateFile(state_dir / "engines.json").read()
    killed = orphans.clean_up(state_dir, left)
    if killed:
        log.warning("ended processes that an earlier supervisor left", count=killed)
    raise_file_limit()
    notices = NoticeSocket(state_dir / "notify")
    inbox = Inbox()
    inbox.catch_signals()
    link = Link(
        broker,
        node,
        inbox.post,
        heartbeat_s=options.heartbeat_s,
        max_deliveries=options.max_deliveries,
        max_losses=options.max_losses,
    )
    try:
        server = NodeServer(plan.config.http, link) if plan.config.http else None
    except OSError as error:
        notices.close()
        lock.release()
        raise AddressInUseError(
            f"field http: {plan.config.http} can't be used ({error.strerror}): "
            "stop the process that has it, or name another port in node.yaml"
        ) from None
    for record in left:
        link.send(_after_a_kill(record))
    around = Surroundings(state_dir, notices.path, options.redis_url, options.prefix, options.artifacts_url)
    limits = plan.config.logs
    logs = Logs(state_dir / "logs", limits.max_mib << 20, limits.keep, environment_of_helpers(around))
    gpus = Gpus(plan.config.gpus, plan.config.vram_headroom_mib, GpuMonitor(plan.config.gpu_poll))
    fleet = Fleet(node, around, link=link, logs=logs, gpus=gpus)
    supervisor = Supervisor(plan, around, fleet=fleet, link=link, inbox=inbox, watch=watch)
    link.after = supervisor.intents.intent.after
    spot = SpotWatch(plan.config.cloud, inbox.post) if plan.config.cloud != "none" else None
    link.start()
    if spot:
        spot.start()
    try:
        return supervisor.run(notices)
    finally:
        gpus.monitor.stop()
        if spot:
            spot.stop()
        if server:
            server.close()
        link.close(timeout=5.0)
        logs.close()
        notices.close()
        inbox.close()
        lock.release()


def _after_a_kill(record: EngineRecord) -> ReclaimWork:
    """For an engine that died with its supervisor: no fault of its tasks, so it counts as a lost node."""
    message = f"engine {record.engine_id} ended together with its supervisor"
    error = ErrorInfo(message=message, type="SupervisorLost", cause=Cause.NODE_LOST)
    return ReclaimWork(record.engine_id, record.queues, Cause.NODE_LOST, error)


class AddressInUseError(Exception):
    """Another process has the address for /metrics, /healthz and /readyz."""


class AlreadyRunningError(Exception):
    """Another supervisor holds this node's state dir."""


class NodeLock:
    def __init__(self, path: Path, node: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self.fd, 200).decode("utf-8", "replace").strip()
            os.close(self.fd)
            raise AlreadyRunningError(
                f"{holder or 'another supervisor'} already runs here and holds {path}: "
                "stop it first, or start this one with another --state-dir and --node-id"
            ) from None
        os.ftruncate(self.fd, 0)
        os.write(self.fd, f"node {node}, pid {os.getpid()}".encode())

    def release(self) -> None:
        os.close(self.fd)
