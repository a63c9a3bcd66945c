"""Out-of-memory kills, from the kernel's counter of this cgroup. Without this evidence no exit is called OOM."""

from __future__ import annotations

from collections import deque
from pathlib import Path

MAX_AGE_S = 5.0


class MemoryEvents:
    """Reads `oom_kill` from memory.events (cgroup v2) or memory.oom_control (v1)."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self.file = _find(root, own)

    def oom_kills(self) -> int:
        """Kills so far; 0 without a counter."""
        if self.file is None:
            return 0
        try:
            lines = self.file.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class OomLedger:
    """Assigns each rise of the counter to one SIGKILL of the next five seconds.

    The counter is the whole cgroup's. Without this, an engine killed by hand today would be "out of memory" because
    another one was yesterday.
    """

    def __init__(self, memory: MemoryEvents) -> None:
        self._memory = memory
        self._seen = memory.oom_kills()
        self._rises: deque[float] = deque(maxlen=1000)

    def poll(self, now: float) -> None:
        """To be called often: the poll that finds a rise sets its time."""
        count = self._memory.oom_kills()
        self._rises.extend([now] * (count - self._seen))
        self._seen = max(count, self._seen)

    def claim(self, now: float) -> int:
        """Assigns one counted OOM kill to this exit: 1, or 0 if there is none."""
        self.poll(now)
        while self._rises and now - self._rises[0] > MAX_AGE_S:
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
