"""`./dev up` as a real process, on a data folder and a port of its own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from dalston_site.up.family import kill, marked
from tests.conftest import ROOT
from tests.support import Spawned, reserve_port, wait_until

HINT = "Ctrl-C stops it."


class Up:
    """One data folder, on which `up` may be started again and again."""

    def __init__(self, data: Path, port: int, logs: Path) -> None:
        self.data = data
        self.port = port
        self._logs = logs
        self._started: list[Spawned] = []
        self._left: Spawned | None = None
        self._count = 0

    def start(self, *options: str, port: int | None = None, env: dict[str, str] | None = None) -> Spawned:
        """Exactly what `./dev up` executes, so that the test knows the pid."""
        argv = [sys.executable, "-m", "dalston_site.up", "--data", str(self.data), "--port", str(port or self.port)]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._count += 1
        log = self._logs / f"up-{self._count}.log"
        self._started.append(Spawned([*argv, *options], log, {**kept, **(env or {})}, ROOT))
        return self._started[-1]

    def ready(self, *options: str, env: dict[str, str] | None = None) -> Spawned:
        left, self._left = self._left, None
        if left and left.running():
            if not options and not env:
                return left
            self.reap()
        up = self.start(*options, env=env)
        up.wait_for(HINT, 90)  # seconds are enough on a quiet machine
        return up

    def leave(self, up: Spawned) -> None:
        """Leave it running for a later test that needs one like it."""
        assert up.running()
        self._left = up

    @property
    def env(self) -> dict[str, str]:
        lines = (self.data / "dev.env").read_text().splitlines()
        return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this data folder, `up` itself included."""
        by_command = (it for it in psutil.process_iter() if str(self.data) in " ".join(command_of(it)))
        return list({*marked(self.data), *by_command})

    def process(self, word: str) -> psutil.Process:
        """The one process with this word in its command: between fork and exec there are two."""

        def found() -> psutil.Process | None:
            those = [it for it in self.processes() if word in command_of(it)]
            return those[0] if len(those) == 1 else None

        return wait_until(found, what=f"one process {word}")

    def nothing_is_left(self, within: float = 0.0) -> None:
        def left() -> str:
            return f"no process left of {self.data}: {[(it.pid, command_of(it)) for it in self.processes()]}"

        wait_until(lambda: not self.processes(), within, left)

    def end_of_test(self) -> None:
        if self._left is None:
            self.reap()

    def reap(self) -> None:
        self._left = None
        while self._started:
            self._started.pop().reap()
        assert not kill(self.processes())


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def answers(up: Up, host: str = "127.0.0.1") -> bool:
    try:
        return httpx.get(f"http://{host}:{up.port}/login/", timeout=40).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Up]:
    """A data folder that doesn't exist yet."""
    one = Up(tmp_path / "data", reserve_port(), tmp_path)
    yield one
    one.reap()


@pytest.fixture(scope="module")
def _used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    one = Up(folder / "data", reserve_port(), folder)
    yield one
    one.reap()


@pytest.fixture
def up(_used: Up) -> Iterator[Up]:
    """A data folder that the tests of a file share, so that only the first one has to fill it."""
    yield _used
    _used.end_of_test()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One `up` that is shared by the tests that only use it."""
    folder = tmp_path_factory.mktemp("up")
    one = Up(folder / "data", reserve_port(), folder)
    try:
        one.ready()
        yield one
    finally:  # also of one that did not get ready
        one.reap()
