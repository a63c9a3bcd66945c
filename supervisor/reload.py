"""Notices that node.yaml or an engine.yaml changed, came or went, and reads them all anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .config import NodePlan

EVERY = 2.0


class Watch:
    """Looks at names, sizes and times every two seconds: no dependency, and editors may rename files."""

    def __init__(self, read: Callable[[], NodePlan], folders: Callable[[], list[Path]]) -> None:
        self._read = read
        self._folders = folders
        self._next_at = 0.0
        self._seen: tuple[tuple[str, int, int], ...] | None = None

    def read(self) -> NodePlan:
        """Raises ManifestError. Whatever it says, it is about the files as they are now."""
        self._seen = self._look()
        return self._read()

    def changed(self, now: float) -> bool:
        if now < self._next_at:
            return False
        self._next_at = now + EVERY
        look = self._look()
        if self._seen is None:
            self._seen = look
        return look != self._seen

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        found: list[tuple[str, int, int]] = []
        for place in self._folders():
            files = [place] if place.is_file() else [place / "engine.yaml", *place.glob("*/engine.yaml")]
            for file in files:
                try:
                    status = file.stat()
                except OSError:
                    continue
                found.append((str(file), status.st_mtime_ns, status.st_size))
        return tuple(sorted(found))
