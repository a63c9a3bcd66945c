"""Health of an engine: answers its supervisor's probe with memory, CPU, threads, last progress and connection.

A thread of its own answers, so a busy or hanging task delays no answer. Code that holds the interpreter's lock delays
it, and that is a finding, too.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from dalston_queue.broker.nodes.health import address, peer
from dalston_queue.broker.nodes.reports import HealthReport

from ..task import Task
from .report import RUNNER_TIMEOUT_S

log = logging.getLogger("engine")

MEMORY_SHARE = 0.9
"""Of the limit of its cgroup: above it the kernel ends the engine soon."""
ANSWER_TIMEOUT_S = 2.0


class Health:
    """The answer to the probe. `connected`, `runner_at` and `running` read the state of the runner."""

    def __init__(
        self,
        *,
        connected: Callable[[], bool],
        runner_at: Callable[[], float],
        running: Callable[[], Iterable[Task]],
    ) -> None:
        self._connected, self._runner_at, self._running = connected, runner_at, running
        self._limit_mib = memory_limit_mib()
        self._cpu = (time.process_time(), time.monotonic())

    def read(self) -> HealthReport:
        now = time.monotonic()
        cpu, wall = time.process_time() - self._cpu[0], now - self._cpu[1]
        self._cpu = (self._cpu[0] + cpu, now)
        progress = [now - task.progress_at for task in self._running()]
        memory, runner_age = memory_mib(), now - self._runner_at()
        problem = ""
        if runner_age > RUNNER_TIMEOUT_S:
            problem = f"its main thread stands still for {runner_age:.0f} s"
        elif self._limit_mib is not None and memory > MEMORY_SHARE * self._limit_mib:
            problem = f"it uses {memory:.0f} of {self._limit_mib:.0f} MiB"
        return HealthReport(
            problem=problem,
            memory_mib=round(memory, 1),
            memory_limit_mib=self._limit_mib,
            cpu_percent=round(100 * cpu / wall, 1) if wall > 0 else 0.0,
            threads=threading.active_count(),
            progress_age_s=round(max(progress), 1) if progress else None,
            connected=self._connected(),
        )


def serve_health(engine_id: str, health: Health) -> None:
    """Answers probes from now on, in a thread of its own."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(address(engine_id))
        listener.listen(4)
    except OSError as error:  # as on a system without abstract sockets; the engine works all the same
        log.warning("no answer to health probes: %s", error)
        listener.close()
        return
    threading.Thread(target=_serve, args=(listener, health), name="health", daemon=True).start()


def _serve(listener: socket.socket, health: Health) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            time.sleep(1.0)  # out of file descriptors: that passes
            continue
        with connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            try:
                if peer(connection)[1] in (0, os.getuid()):
                    connection.sendall(msgspec.json.encode(health.read()))
            except OSError as error:
                log.debug("a health probe got no answer: %s", error)


def memory_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def memory_limit_mib(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The limit of our cgroup (version 2); None without one."""
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
        return int((root / path.lstrip("/") / "memory.max").read_text()) / (1 << 20)
    except (OSError, ValueError, StopIteration):  # "max" is no number
        return None
