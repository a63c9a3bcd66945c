"""Crash points: DALSTON_FAULT=<point>[:<detail>] kills the process at a named moment, for tests.

The process dies by SIGKILL: no handler runs, no transaction commits, nothing is released. DALSTON_FAULT_SIGNAL names
another signal; SIGSTOP freezes the process there, as a paused machine would.
"""

import os
import signal
from collections.abc import Iterable

_FATAL = os.environ.get("DALSTON_FAULT", "")
_SIGNAL = signal.Signals[os.environ.get("DALSTON_FAULT_SIGNAL", "SIGKILL")]


def point(name: str, details: Iterable[str] = ()) -> None:
    """Die here if DALSTON_FAULT names this point, or this point with one of these details (`name:detail`)."""
    if _FATAL and (name == _FATAL or any(f"{name}:{detail}" == _FATAL for detail in details)):
        os.kill(os.getpid(), _SIGNAL)
