"""All processes of an `up`: started, watched, and stopped in order."""

import time
from collections.abc import Callable

import psutil

from dalston_site.up import family
from dalston_site.up.child import Child, Program, Stage
from dalston_site.up.console import Console
from dalston_site.up.holder import Holder

PATIENCE_S = {Stage.NODE: 4.0, Stage.SERVICE: 2.5, Stage.DATABASE: 2.0}  # together below the promised 10 s


class Children:
    def __init__(self, holder: Holder, console: Console) -> None:
        self._holder = holder
        self._console = console
        self._all: dict[str, Child] = {}

    def start(self, program: Program) -> Child:
        """Start it, in the place of one of the same name that has ended."""
        child = Child(program, self._holder.data, self._console)
        self._all[program.name] = child
        self._holder.record(program.name, child.pid)
        return child

    def forget(self, child: Child) -> None:
        """It has done its work, and its end is no surprise."""
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
        patience = PATIENCE_S[children[0].stage]
        end = time.monotonic() + patience
        while (left := [child for child in children if child.poll() is None]) and not forced():
            if time.monotonic() > end:
                names = ", ".join(child.name for child in left)
                self._console.say(f"Killing {names}, which did not stop within {patience:g} s.")
                break
            time.sleep(0.02)
        family.kill(offspring)
