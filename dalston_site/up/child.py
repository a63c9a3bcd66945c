"""One process that `up` starts: what to run, and how it is doing."""

import collections
import signal
import subprocess
import threading
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from dalston_site.up import family
from dalston_site.up.console import Console
from dalston_site.up.options import ROOT

TAIL = 10


class Stage(IntEnum):
    """Who stops when: nodes give their work back while everything is there, databases go last."""

    NODE = 0
    SERVICE = 1
    DATABASE = 2


@dataclass(frozen=True)
class Program:
    name: str
    argv: list[str]
    env: dict[str, str]
    stage: Stage = Stage.SERVICE
    stop_signal: signal.Signals = signal.SIGTERM
    noise: str = ""  # lines with this text are not shown


class Child:
    """A running program. Make it in the main thread: it ends with the thread that started it (see guarded.py)."""

    def __init__(self, program: Program, data: Path, console: Console) -> None:
        self.program = program
        self._console = console
        self._lines: collections.deque[str] = collections.deque(maxlen=TAIL)
        self.popen = subprocess.Popen(
            program.argv,
            env={**program.env, family.MARK: str(data)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # Ctrl-C reaches only `up`, which decides the order
        )
        self._output = threading.Thread(target=self._copy_output, daemon=True)
        self._output.start()

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def stage(self) -> Stage:
        return self.program.stage

    @property
    def pid(self) -> int:
        return self.popen.pid

    def poll(self) -> int | None:
        return self.popen.poll()

    def tail(self) -> str:
        """Its last lines. Waits a moment for the very last ones of a process that ended."""
        if self.poll() is not None:
            self._output.join(0.5)
        return "\n".join(f"    {line}" for line in self._lines)

    def how_it_ended(self) -> str:
        code = self.poll()
        killed = code is not None and code < 0
        return f"was killed by {signal.Signals(-(code or 0)).name}" if killed else f"ended (exit {code})"

    def _copy_output(self) -> None:
        for line in self.popen.stdout or ():
            if not self.program.noise or self.program.noise not in line:
                self._lines.append(line.rstrip())
                self._console.line(self.name, line.rstrip())
