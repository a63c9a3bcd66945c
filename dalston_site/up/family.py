"""Process trees: finds and kills their processes.

A process is identified by pid and start time, so that no other program with its pid is killed. Descendants also have a
mark in their environment, so that those outside of the process group or without their parent are found too. Postgres
and Valkey overwrite theirs with a title, but work inside the data folder.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "DALSTON_UP"
SERVERS = {"postgres", "valkey-server"}


@dataclass(frozen=True)
class Identity:
    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return None

    def process(self) -> psutil.Process | None:
        """The process, if it still lives and its pid is not reused."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if same else None


def living(identities: Iterable[Identity]) -> list[psutil.Process]:
    return [process for identity in identities if (process := identity.process())]


def processes(pids: Iterable[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    return found


def marked(data: Path) -> list[psutil.Process]:
    """Every process started by an `up` on this data folder, at any depth, except this one."""
    return [it for it in psutil.process_iter() if _belongs_to(data, it) and it != psutil.Process()]


def _belongs_to(data: Path, process: psutil.Process) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        inside = process.name() in SERVERS and Path(process.cwd()).is_relative_to(data)
        return inside or process.environ().get(MARK) == str(data)
    except (psutil.Error, OSError):  # gone, or another user's
        return False


def descendants(of: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The processes and all their descendants."""
    family: set[psutil.Process] = set()
    for process in of:
        try:
            family |= {process, *process.children(recursive=True)}
        except psutil.NoSuchProcess:
            continue
    return family


def kill(processes: Iterable[psutil.Process], timeout_s: float = 3) -> list[psutil.Process]:
    """Kills them all and returns those that still live."""
    targets = list(processes)
    for process in targets:
        try:
            process.kill()
        except psutil.Error:
            continue
    return wait(targets, timeout_s)


def wait(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Waits until they have ended; returns those that have not."""
    end = time.monotonic() + timeout_s
    left = list(processes)
    while left := [process for process in left if _lives(process)]:
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
