"""Orphans: kills processes that earlier supervisors and dead engines left, also grandchildren that called setsid.

They are found by pid and start time in the state file, and by marks in the environment of every descendant.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .children import STATE_MARK
from .linux import environ_of, process_table, start_time
from .statefile import EngineRecord, Process

CLEAN_UP_TIMEOUT_S = 10.0
FAMILY_TIMEOUT_S = 0.2  # the main loop waits this long


def kill_exactly(process: Process) -> bool:
    """Kills this process, but not another one that has its pid by now."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The handle is of one process: after this check the pid can't be reused.
        if start_time(process.pid) != process.start:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def marked(name: str, value: str) -> list[Process]:
    """Every process with this variable in its environment, except this one and its ancestors."""
    table = process_table()
    spared = {os.getpid()}
    parent = table.get(os.getpid(), 0)
    while parent and parent not in spared:
        spared.add(parent)
        parent = table.get(parent, 0)
    found: list[Process] = []
    for pid in table:
        if pid not in spared and environ_of(pid).get(name) == value:
            started = start_time(pid)
            if started is not None:
                found.append(Process(pid, started))
    return found


def clean_up(state_dir: Path, records: list[EngineRecord]) -> int:
    """Kills all processes of an earlier supervisor with this state dir; returns how many."""
    killed: set[Process] = set()
    known = [process for record in records for process in (record.process, *record.descendants)]
    end = time.monotonic() + CLEAN_UP_TIMEOUT_S
    while True:
        found = {
            process
            for process in (*known, *marked(STATE_MARK, str(state_dir)))
            if start_time(process.pid) == process.start
        }
        if not found or time.monotonic() > end:
            return len(killed)
        killed |= {process for process in found if kill_exactly(process)}
        time.sleep(0.02)  # until the kernel has reaped them


def kill_family(engine_id: str, descendants: tuple[Process, ...] = (), timeout_s: float = FAMILY_TIMEOUT_S) -> bool:
    """Kills descendants of a dead engine outside of its process group, again and again: they may fork meanwhile. False
    if some still live after the timeout; then call it again."""
    end = time.monotonic() + timeout_s
    while True:
        family = {*marked("DALSTON_ENGINE_ID", engine_id), *descendants}
        living = [process for process in family if start_time(process.pid) == process.start]
        if not living:
            return True
        for process in living:
            kill_exactly(process)
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
