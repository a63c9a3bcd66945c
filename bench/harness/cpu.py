"""Cores: what a task costs of them, however busy the machine is with other things, and who runs on which."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

import psutil

from dalston_site.embedded.guarded import guarded

_BUSY = """
import os
os.sched_setaffinity(0, {%d})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True: pass
"""


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these processes and all their descendants, also of those that have ended and been waited for."""
    total = 0.0
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def _never_halting(core: int) -> Iterator[None]:
    """By a process that has the core only while nobody else wants it."""
    busy = subprocess.Popen(guarded([sys.executable, "-c", _BUSY % core], dies_with=signal.SIGKILL))
    try:
        while os.sched_getscheduler(busy.pid) != os.SCHED_IDLE:  # until then it takes time from what is measured
            if busy.poll() is not None:
                raise RuntimeError(f"core {core} can't be kept from halting: see the error above")
            time.sleep(0.001)
        yield
    finally:
        busy.kill()
        busy.wait()


@contextmanager
def apart(server: int, *, halting: bool) -> Iterator[None]:
    """The server on the first core, we and what we start on the others, as if on another machine. Left to the kernel,
    both are on one core or on two from run to run, and a round trip takes 30 or 100 us. Does nothing where it can't.

    A virtual core that has nothing to do is halted, and getting it back takes the host 20 us, or more when it is busy.
    Not `halting`: the server's core always has something to do, as that of a server in use. No other engine stands in
    line there: it is the best case."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        yield
        return
    for thread in psutil.Process(server).threads():
        os.sched_setaffinity(thread.id, cores[:1])
    os.sched_setaffinity(0, cores[1:])
    try:
        with nullcontext() if halting else _never_halting(cores[0]):
            yield
    finally:
        os.sched_setaffinity(0, cores)
        for thread in psutil.Process(server).threads():
            os.sched_setaffinity(thread.id, cores)
