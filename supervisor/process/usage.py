"""CPU and memory of each engine with its descendants, which are also kept for the state file."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from .fleet import Fleet
from .linux import descendants, process_table, start_time
from .statefile import Process

SAMPLE_EVERY_S = 5.0


class Usage:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.next_at = 0.0
        self._processes: dict[int, psutil.Process] = {}  # kept: cpu_percent compares with the previous call

    def due(self, now: float) -> bool:
        return now >= self.next_at

    def sample(self, now: float) -> None:
        self.next_at = now + SAMPLE_EVERY_S
        table = process_table()
        alive: set[int] = set()
        changed = False
        for slot in self.fleet:
            if slot.child is None:
                continue
            family = descendants(slot.child.pid, table)
            alive.update((slot.child.pid, *family))
            members = tuple(Process(pid, start) for pid in family if (start := start_time(pid)) is not None)
            changed = changed or members != slot.descendants
            slot.descendants = members
            slot.cpu_percent, slot.memory_mib = self._measure([slot.child.pid, *family])
        self._processes = {pid: process for pid, process in self._processes.items() if pid in alive}
        if changed:
            self.fleet.save()

    def _measure(self, pids: list[int]) -> tuple[float, float]:
        cpu = memory = 0.0
        for pid in pids:
            try:
                process = self._processes.setdefault(pid, psutil.Process(pid))
                cpu += process.cpu_percent()
                memory += process.memory_info().rss / (1 << 20)
            except psutil.Error:
                self._processes.pop(pid, None)
        return cpu, memory


def disk_used(folder: Path) -> float | None:
    """The share in use of the file system that holds this folder, without what is reserved for root; None if it can't
    be read."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return round(usage.used / max(usage.used + usage.free, 1), 4)
