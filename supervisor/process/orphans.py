"""Ending what earlier supervisors and dead engines left behind, grandchildren that called setsid included.

Two ways to know them: pid and start time in the state file, and the marks that every descendant has in its environment.
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
FAMILY_TIMEOUT_S = 0.2  # the main loop waits for it


def kill_exactly(process: Process) -> bool:
    """KILLs this very process; a pid that belongs to another one since is left alone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The handle holds the identity: the check after it can't be outrun.
        if start_time(process.pid) != process.start:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def marked(name: str, value: str) -> list[Process]:
    """Every process that was started with this variable in its environment, but not we and our ancestors."""
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
    """Ends everything that an earlier supervisor with this state dir left; says how many that were."""
    killed: set[Process] = set()
    known = [process for record in records for process in (record.process, *record.descendants)]
    give_up = time.monotonic() + CLEAN_UP_TIMEOUT_S
    while True:
        found = {
            process
            for process in (*known, *marked(STATE_MARK, str(state_dir)))
            if start_time(process.pid) == process.start
        }
        if not found or time.monotonic() > give_up:
            return len(killed)
        killed |= {process for process in found if kill_exactly(process)}
        time.sleep(0.02)  # until the kernel has taken them away


def kill_family(engine_id: str, descendants: tuple[Process, ...] = (), timeout_s: float = FAMILY_TIMEOUT_S) -> bool:
    """Ends what a dead engine left outside of its process group. Looks again until none is left: they may have had
    children meanwhile. False: some still live, and the caller should try again."""
    give_up = time.monotonic() + timeout_s
    while True:
        family = {*marked("DALSTON_ENGINE_ID", engine_id), *descendants}
        living = [process for process in family if start_time(process.pid) == process.start]
        if not living:
            return True
        for process in living:
            kill_exactly(process)
        if time.monotonic() > give_up:
            return False
        time.sleep(0.001)
