"""How a process is made to end: a ladder of signals, each with its time.

CONT is on it because a stopped process keeps TERM pending.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

UNKILLABLE_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class Rung:
    """One signal, `after` seconds from the ladder's start. `whole_group`: the engine's children get it as well."""

    after: float
    signal: signal.Signals
    whole_group: bool = False


def hang_ladder() -> tuple[Rung, ...]:
    """For an engine that makes no progress. ABRT makes faulthandler write every thread's stack into the log."""
    return (
        Rung(0.0, signal.SIGTERM),
        Rung(0.0, signal.SIGCONT, whole_group=True),
        Rung(1.0, signal.SIGABRT),
        Rung(2.0, signal.SIGKILL, whole_group=True),
    )


def stop_ladder(grace: float) -> tuple[Rung, ...]:
    """It may finish for `grace` seconds; the second TERM says "release what you hold, now".

    It is sent twice: TERMs that meet are one to the process, as the first two do without grace, or while it is
    stopped.
    """
    return (
        Rung(0.0, signal.SIGTERM),
        Rung(grace, signal.SIGTERM),
        Rung(grace, signal.SIGCONT, whole_group=True),
        Rung(grace + 0.5, signal.SIGTERM),
        Rung(grace + 3.0, signal.SIGABRT),
        Rung(grace + 4.0, signal.SIGKILL, whole_group=True),
    )


@dataclass(frozen=True, slots=True)
class Climb:
    """Where on its ladder a stopping process is."""

    rungs: tuple[Rung, ...]
    began: float
    reason: str
    step: int = 0

    def due(self, now: float) -> Rung | None:
        """The next signal, if its time has come."""
        if self.step < len(self.rungs) and now >= self.began + self.rungs[self.step].after:
            return self.rungs[self.step]
        return None

    def next_at(self) -> float:
        """When there is something to do again."""
        if self.step < len(self.rungs):
            return self.began + self.rungs[self.step].after
        return self.began + self.rungs[-1].after + UNKILLABLE_AFTER

    def grace_ends_at(self) -> float:
        """Until then it may finish what it has."""
        return self.began + self.rungs[1].after

    def hopeless(self, now: float) -> bool:
        """KILL was sent a minute ago and the process is still there: it hangs in the kernel."""
        return self.step >= len(self.rungs) and now >= self.next_at()
