"""Notices that node.yaml or an engine.yaml changed, came or went, and reads them all anew."""

from __future__ import annotations

from collections.abc import Callable

from .config import NodePlan

EVERY = 2.0


class Watch:
    """Looks at names, sizes and times every two seconds: no dependency, and editors may rename files."""

    def __init__(self, read: Callable[[], NodePlan], plan: NodePlan) -> None:
        self._read = read
        self._plan = plan
        self._next_at = 0.0
        self._seen = self._look()

    def read(self) -> NodePlan:
        """Raises ManifestError. Whatever it says, it is about the files as they are now."""
        self._seen = self._look()
        self._plan = self._read()
        self._seen = self._look()  # it may lead to other folders
        return self._plan

    def changed(self, now: float) -> bool:
        if now < self._next_at:
            return False
        self._next_at = now + EVERY
        return self._look() != self._seen

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        found: list[tuple[str, int, int]] = []
        for place in self._plan.places():
            files = [place] if place.is_file() else [place / "engine.yaml", *place.glob("*/engine.yaml")]
            for file in files:
                try:
                    status = file.stat()
                except OSError:
                    continue
                found.append((str(file), status.st_mtime_ns, status.st_size))
        return tuple(sorted(found))
