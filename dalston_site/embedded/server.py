"""Starts a private server on a free port and waits until it answers."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dalston_site.embedded.binaries import ServerError

READY_TIMEOUT_S = 30.0  # a large append-only file or a crash recovery takes its time


class Recipe(Protocol):
    name: str
    stop_signal: signal.Signals
    noise: str  # lines with this text are not shown

    def prepare(self) -> None: ...
    def command(self, port: int) -> list[str]: ...
    def is_ready(self, port: int, pid: int) -> bool: ...
    def url(self, port: int) -> str: ...


class Process(Protocol):
    """A started process, as `launch` uses it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def tail(self) -> str: ...


def launch(recipe: Recipe, spawn: Callable[[list[str]], Process], port: int | None = None) -> str:
    """Start it with `spawn` and return its address; with `port`, again at the address that its clients know.

    Tried several times: another program may take the free port first, and what a killed Postgres held is free only when
    the kernel has taken the last of its processes away.
    """
    for _ in range(3 if port is None else 20):
        recipe.prepare()
        here = port or free_port()
        process = spawn(recipe.command(here))
        if _wait(recipe, here, process):
            return recipe.url(here)
        if not re.search("in use|already exists", process.tail()):
            break
        time.sleep(0.5)
    raise ServerError(f"{recipe.name} did not start (exit {process.poll()}). Its last lines:\n{process.tail()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(recipe: Recipe, port: int, process: Process) -> bool:
    end = time.monotonic() + READY_TIMEOUT_S
    while process.poll() is None and time.monotonic() < end:
        if recipe.is_ready(port, process.pid):
            return True
        time.sleep(0.02)
    return False


class Server:
    """A private server with its log in its folder, for the tests. Start it from the main thread (see guarded.py)."""

    process: subprocess.Popen[bytes]

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe = recipe
        self.log = folder / f"{recipe.name}.log"
        self.url = launch(recipe, self._spawn)

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def stop(self) -> None:
        self.process.send_signal(self.recipe.stop_signal)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _spawn(self, argv: list[str]) -> "Server":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, process_group=0)
        return self
