"""Shared by all tests: waiting for a condition, and real processes that never outlive their test."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from dalston_site.embedded.guarded import guarded

Found = TypeVar("Found")
WAIT_TIMEOUT_S = 30
"""For events without a promised time. Only a failing test waits this long, or nearly one on a busy machine."""


def wait_until(
    predicate: Callable[[], Found | None], timeout: float = WAIT_TIMEOUT_S, what: str | Callable[[], str] = ""
) -> Found:
    """Calls `predicate` until its answer is true, and returns the answer. A timeout fails with `what`: the condition,
    or a function that describes the state found instead."""
    end = time.monotonic() + timeout
    while True:
        found = predicate()
        if found:
            return found
        if time.monotonic() > end:
            text = what() if callable(what) else what
            raise AssertionError(f"not within {timeout:g} s: {text or getattr(predicate, '__name__', 'the condition')}")
        time.sleep(0.01)


def keeps_time(limit: float, once: Callable[[], float]) -> None:
    """Calls `once`, which returns the seconds it took, up to four times: one must be within the limit. Another load on
    the machine delays a round or two; broken code is late in each."""
    took = [once()]
    while took[-1] >= limit:
        assert len(took) < 4, f"not once within {limit:g} s: {took}"
        took.append(once())


def need_tool(name: str) -> str:
    """The path of a program that may not be installed. Without it the test is skipped, or fails in CI."""
    path = shutil.which(name)
    if path is None:
        absent = f"there is no {name} on this machine"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(absent)
    return path


def reserve_port() -> int:
    """A port for a server that a test starts, and perhaps restarts. No other process gets it until the run is over.

    The socket is bound and never listens: a connection is refused while no server runs, and a server that binds with
    SO_REUSEADDR, as servers do, gets the port as well.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    holder.detach()  # stays open
    return port


class Spawned:
    """A real process with its output in a file. It ends with the test, and with a killed test run."""

    def __init__(self, argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None = None) -> None:
        self.argv = list(argv)
        self.log = log
        command = guarded(self.argv, dies_with=signal.SIGKILL)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd, process_group=0
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)

    def wait(self, timeout: float = WAIT_TIMEOUT_S) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} still runs after {timeout:g} s:\n{self.output}") from None

    def wait_for(self, text: str, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Waits until `text` is in the output."""
        end = time.monotonic() + timeout
        while text not in self.output:
            over = not self.running() and text not in self.output
            if over or time.monotonic() > end:
                how = f"ended with {self.process.returncode}" if over else f"printed other lines for {timeout:g} s"
                raise AssertionError(f"no {text!r} from {self.argv}, which {how}:\n{self.output}")
            time.sleep(0.01)

    def stop(self, signum: signal.Signals = signal.SIGTERM, timeout: float = WAIT_TIMEOUT_S) -> int:
        if self.running():
            self.send(signum)
        return self.wait(timeout)

    def reap(self) -> None:
        """Kills the rest of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
