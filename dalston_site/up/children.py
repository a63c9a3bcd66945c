"""The processes that `up` starts: each in its own process group, its output prefixed, stopped in order."""

import collections
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from enum import IntEnum

import psutil

from dalston_site.up import family
from dalston_site.up.console import Console
from dalston_site.up.holder import Holder
from dalston_site.up.options import ROOT

TAIL = 10


class Stage(IntEnum):
    """Who stops when: nodes give their work back while everything is there, databases go last."""

    NODE = 0
    SERVICE = 1
    DATABASE = 2


PATIENCE_S = {Stage.NODE: 4.0, Stage.SERVICE: 2.5, Stage.DATABASE: 2.0}  # together below the promised 10 s


class Child:
    def __init__(self, name: str, stage: Stage, stop_signal: signal.Signals, popen: "subprocess.Popen[str]") -> None:
        self.name = name
        self.stage = stage
        self.stop_signal = stop_signal
        self.popen = popen
        self.lines: collections.deque[str] = collections.deque(maxlen=TAIL)
        self.output: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self.popen.pid

    def poll(self) -> int | None:
        return self.popen.poll()

    def tail(self) -> str:
        """Its last lines. Waits a moment for the very last ones of a process that ended."""
        if self.output is not None and self.poll() is not None:
            self.output.join(0.5)
        return "\n".join(f"    {line}" for line in self.lines)

    def how_it_ended(self) -> str:
        code = self.poll()
        return (
            f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended (exit {code})"
        )


class Children:
    """All of them. Start them from the main thread: they end with the thread that started them (see guarded.py)."""

    def __init__(self, holder: Holder, console: Console) -> None:
        self._holder = holder
        self._console = console
        self._all: list[Child] = []

    def __iter__(self) -> Iterator[Child]:
        return iter(self._all)

    def start(
        self, name: str, argv: list[str], env: dict[str, str], stage: Stage, stop_signal: signal.Signals
    ) -> Child:
        popen = subprocess.Popen(
            argv,
            env={**env, family.MARK: str(self._holder.data)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # Ctrl-C reaches only `up`, which decides the order
        )
        child = Child(name, stage, stop_signal, popen)
        self._all = [*(other for other in self._all if other.name != name), child]  # a server may need a second try
        self._holder.record(name, popen.pid)
        child.output = threading.Thread(target=self._copy_output, args=(child,), name=f"output of {name}", daemon=True)
        child.output.start()
        return child

    def forget(self, child: Child) -> None:
        """It has done its work, and its end is no surprise."""
        self._all.remove(child)

    def dead(self) -> Child | None:
        return next((child for child in self._all if child.poll() is not None), None)

    def stop(self, forced: Callable[[], bool]) -> None:
        """Stop all, stage by stage; kill what doesn't stop in time, and everything at once when `forced`."""
        for stage in Stage:
            self._stop_stage([child for child in self._all if child.stage is stage and child.poll() is None], forced)
        # A child that was interrupted while being started is in no list, and an engine may have left its parent.
        family.kill({*family.descendants([psutil.Process()]), *family.marked(self._holder.data)} - {psutil.Process()})
        for child in self._all:
            child.popen.wait()

    def _stop_stage(self, children: list[Child], forced: Callable[[], bool]) -> None:
        if not children:
            return
        offspring = family.descendants(family.processes(child.pid for child in children))
        for child in children:
            child.popen.send_signal(child.stop_signal)
        end = time.monotonic() + PATIENCE_S[children[0].stage]
        while (left := [child for child in children if child.poll() is None]) and not forced():
            if time.monotonic() > end:
                names = ", ".join(child.name for child in left)
                self._console.say(f"{names} did not stop within {PATIENCE_S[children[0].stage]:g} s and is killed.")
                break
            time.sleep(0.02)
        family.kill(offspring)

    def _copy_output(self, child: Child) -> None:
        for line in child.popen.stdout or ():
            child.lines.append(line.rstrip())
            self._console.line(child.name, line.rstrip())
