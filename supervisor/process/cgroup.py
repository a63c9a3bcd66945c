"""Out-of-memory kills by the kernel's own counter of our cgroup. Without its evidence no exit is called OOM."""

from __future__ import annotations

from collections import deque
from pathlib import Path

FRESH = 5.0


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


class OomLedger:
    """Which death the counter's rise belongs to: each rise explains one SIGKILL, and only one of the next few seconds.

    The counter is the whole cgroup's. Without this, an engine that is killed by hand today would be "out of memory"
    because another one was yesterday.
    """

    def __init__(self, memory: MemoryEvents) -> None:
        self._memory = memory
        self._seen = memory.oom_kills()
        self._rises: deque[float] = deque(maxlen=1000)

    def look(self, now: float) -> None:
        """Often: the moment of a rise is that of the look that found it."""
        count = self._memory.oom_kills()
        self._rises.extend([now] * (count - self._seen))
        self._seen = max(count, self._seen)

    def claim(self, now: float) -> int:
        """One rise for one death: 1 if there is one, else 0."""
        self.look(now)
        while self._rises and now - self._rises[0] > FRESH:
            self._rises.popleft()
        if not self._rises:
            return 0
        self._rises.popleft()
        return 1


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
