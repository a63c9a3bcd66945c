"""The processes that `up` starts: their output, their restarts after a death, and the order in which they stop."""

import signal
import subprocess
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import psutil

from dalston_site.up import family
from dalston_site.up.console import Console
from dalston_site.up.holder import Holder
from dalston_site.up.options import ROOT

TAIL_LINES = 10
MAX_RESTARTS = 5
RESTART_WINDOW_S = 60.0


class Stage(IntEnum):
    """The order of stopping: nodes release their tasks while every server still runs, databases go last."""

    NODE = 0
    SERVICE = 1
    DATABASE = 2


STOP_TIMEOUT_S = {Stage.NODE: 4.0, Stage.SERVICE: 2.5, Stage.DATABASE: 2.0}  # together less than 10 s, as documented


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
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
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
        """Its last lines. After its end, waits a moment for the rest of its output."""
        if self.poll() is not None:
            self._output.join(0.5)
        return "\n".join(f"    {line}" for line in self._lines)

    def how_it_ended(self) -> str:
        code = self.poll()
        killed = code is not None and code < 0
        return f"was killed by {signal.Signals(-(code or 0)).name}" if killed else f"ended (exit {code})"

    def _copy_output(self) -> None:
        for text in self.popen.stdout or ():
            if not self.program.noise or self.program.noise not in text:
                self._lines.append(text.rstrip())
                self._console.line(self.name, text.rstrip())


class Children:
    def __init__(self, holder: Holder, console: Console) -> None:
        self._holder = holder
        self._console = console
        self._all: dict[str, Child] = {}

    def start(self, program: Program) -> Child:
        """Starts it, instead of an ended one of the same name."""
        child = Child(program, self._holder.data, self._console)
        self._all[program.name] = child
        self._holder.record(program.name, child.pid)
        return child

    def forget(self, child: Child) -> None:
        """For a child that is meant to end."""
        del self._all[child.name]

    def dead(self) -> Child | None:
        return next((child for child in self._all.values() if child.poll() is not None), None)

    def stop(self, forced: Callable[[], bool]) -> None:
        """Stop all, stage by stage; kill what doesn't stop in time, and everything at once when `forced`."""
        for stage in Stage:
            self._stop_stage([it for it in self._all.values() if it.stage is stage and it.poll() is None], forced)
        # A child that was interrupted while being started is in no list, and an engine may have left its parent.
        family.kill({*family.descendants([psutil.Process()]), *family.marked(self._holder.data)} - {psutil.Process()})
        for child in self._all.values():
            child.popen.wait()

    def _stop_stage(self, children: list[Child], forced: Callable[[], bool]) -> None:
        if not children:
            return
        offspring = family.descendants(family.processes(child.pid for child in children))
        for child in children:
            child.popen.send_signal(child.program.stop_signal)
        timeout = STOP_TIMEOUT_S[children[0].stage]
        end = time.monotonic() + timeout
        while (left := [child for child in children if child.poll() is None]) and not forced():
            if time.monotonic() > end:
                names = ", ".join(child.name for child in left)
                self._console.write(f"Killing {names}, which did not stop within {timeout:g} s.")
                break
            time.sleep(0.02)
        family.kill(offspring)


class Restarts:
    """Limits the restarts of a process that dies again and again."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MAX_RESTARTS))

    def allow(self, name: str, now: float) -> bool:
        """Count this restart and allow it, unless there were MAX_RESTARTS within the window."""
        times = self._times[name]
        if len(times) == MAX_RESTARTS and now - times[0] < RESTART_WINDOW_S:
            return False
        times.append(now)
        return True
