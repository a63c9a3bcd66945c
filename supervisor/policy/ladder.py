"""Ladders of signals that end a process, each signal with its time.

The ladder includes CONT because a stopped process keeps TERM pending.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

UNKILLABLE_AFTER_S = 60.0


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
    """The engine may finish its tasks for `grace` seconds; the second TERM makes the engine release them.

    The second TERM is sent again after CONT: with a grace of 0, or while the engine is stopped, two pending TERMs reach
    the engine as one.
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
    """The ladder of a stopping process, and the next rung."""

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
        """When the next signal is due, or the process counts as unkillable."""
        if self.step < len(self.rungs):
            return self.began + self.rungs[self.step].after
        return self.began + self.rungs[-1].after + UNKILLABLE_AFTER_S

    def grace_ends_at(self) -> float:
        """Until then it may finish its tasks."""
        return self.began + self.rungs[1].after

    def hopeless(self, now: float) -> bool:
        """True a minute after KILL: the process hangs in the kernel."""
        return self.step >= len(self.rungs) and now >= self.next_at()
