"""The evidence for "the host ran out of memory": the kernel's own counter of our cgroup. Without it nobody says OOM."""

from __future__ import annotations

from pathlib import Path


class MemoryEvents:
    """Reads `oom_kill` from memory.events (cgroup v2) or memory.oom_control (v1)."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self.file = _find(root, own)

    def oom_kills(self) -> int:
        """So far; 0 where there is no counter."""
        if self.file is None:
            return 0
        try:
            lines = self.file.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _find(root: Path, own: Path) -> Path | None:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        relative = path.lstrip("/")
        if controllers == "":
            candidates = [root / relative / "memory.events"]
        elif "memory" in controllers.split(","):
            candidates = [root / "memory" / relative / "memory.oom_control", root / "memory" / "memory.oom_control"]
        else:
            continue
        for candidate in candidates:
            if candidate.is_file():
                return candidate
    return None
