"""A hook for tests that kill a process at a named moment: DALSTON_FAULT=<point>. Without it every point does nothing.

The process dies as by SIGKILL: no handler runs, no transaction commits, nothing is released.
"""

import os
import signal

_FATAL = os.environ.get("DALSTON_FAULT", "")


def point(name: str) -> None:
    """Die here if DALSTON_FAULT names this point."""
    if name == _FATAL:
        os.kill(os.getpid(), signal.SIGKILL)
