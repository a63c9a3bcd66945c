"""Linux calls: subreaper, file limit, process table."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> bool:
    """Makes orphaned grandchildren children of this process instead of init, so that it can end them."""
    return int(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def raise_file_limit(wanted: int = 16384) -> None:
    """An engine costs four descriptors here, and the usual limit is 1 024. The hard limit stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot: with the pid, a unique identity. None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def environ_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty if it is gone or can't be read."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return {
        os.fsdecode(name): os.fsdecode(value) for name, _, value in (pair.partition(b"=") for pair in pairs) if name
    }


def process_table() -> dict[int, int]:
    """Every living process and its parent. (The kernel's own lists of children are often not compiled in.)"""
    table: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (half the time of iterdir, and this runs at every death)
        if not name.isdigit():
            continue
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # ended since the listing
        if fields[0] not in (b"Z", b"X"):
            table[int(name)] = int(fields[1])
    return table


def descendants(pid: int, table: dict[int, int] | None = None) -> list[int]:
    """Children, their children and so on, from a table of one moment."""
    table = process_table() if table is None else table
    families: dict[int, list[int]] = {}
    for child, parent in table.items():
        families.setdefault(parent, []).append(child)
    found: list[int] = []
    queue = list(families.get(pid, ()))
    while queue:
        child = queue.pop()
        found.append(child)
        queue += families.get(child, ())
    return found
