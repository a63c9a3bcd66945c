"""CPU time of processes: what a task costs, however busy the machine is with other things."""

from collections.abc import Iterable

import psutil


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
