"""Child processes: started, signalled and reaped.

Everything is spawned by the main thread: PDEATHSIG fires when the spawning *thread* ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .linux import start_time

STATE_MARK = "DALSTON_STATE_DIR"  # in every descendant's environment: by it the next supervisor knows its orphans
MAX_PER_ROUND = 500
SECRET = ("DATABASE_URL", "DALSTON_SECRET_KEY", "DALSTON_TOKEN")  # an engine needs Redis and nothing else


@dataclass(slots=True)
class Child:
    """A process that the supervisor started and will reap."""

    name: str
    popen: subprocess.Popen[bytes]
    started_ticks: int  # with the pid, a unique identity

    @property
    def pid(self) -> int:
        return self.popen.pid


def resolve(command: tuple[str, ...], folder: str) -> list[str]:
    """The argv to execute; `python` is our own interpreter. Raises FileNotFoundError with the reason."""
    program = command[0]
    if program in ("python", "python3"):
        return [sys.executable, *command[1:]]
    found = shutil.which(str(Path(folder, program)) if "/" in program else program)
    if found is None:
        raise FileNotFoundError(f"command {program!r} is not an executable file (seen from {folder})")
    return [found, *command[1:]]


def leash() -> list[str]:
    """A command prefix that makes the kernel kill the child when its parent dies. preexec_fn is unsafe with threads."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def spawn(name: str, argv: list[str], *, folder: str, env: dict[str, str], output: int) -> Child:
    """Starts a process as the leader of its own session and process group."""
    popen = subprocess.Popen(
        [*leash(), *argv],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    return Child(name, popen, start_time(popen.pid) or 0)


def base_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRET}


def send(pid: int, number: signal.Signals, *, whole_group: bool = False) -> bool:
    """Signals a child that is not reaped yet (so its pid can't be reused). False if it is gone."""
    try:
        if whole_group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def reap(children: dict[int, Child]) -> Iterator[tuple[int, int]]:
    """Ended children as (pid, returncode), adopted orphans among them. At most MAX_PER_ROUND: processes started
    faster than they are reaped must not hold up the main loop."""
    for _ in range(MAX_PER_ROUND):
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if info is None:
            return
        child = children.get(info.si_pid)
        if child is None:
            _, status = os.waitpid(info.si_pid, 0)
            yield info.si_pid, os.waitstatus_to_exitcode(status)
        else:
            # The group first, while the zombie holds the pid: no other group can have its number.
            send(child.pid, signal.SIGKILL, whole_group=True)
            yield child.pid, child.popen.wait()
