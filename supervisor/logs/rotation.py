"""One log file, rotated by size: `name.log`, `name.log.1` and so on, with a limit for all of them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


class RotatingLog:
    """The oldest file is deleted. On a full disk lines are lost and counted; nothing is raised."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.keep = keep
        self.lost = 0
        # Of the log's end, for readers that continue later. It starts with the clock, so that it grows over restarts.
        self.position = time.time_ns()
        self._open()

    def write(self, lines: bytes) -> None:
        """Writes whole lines, and rotates before a file gets too long."""
        while lines:
            piece = self._fitting(lines)
            lines = lines[len(piece) :]
            try:
                written = os.write(self.fd, piece)
            except OSError:
                self.lost += len(piece)
            else:
                self.size += written
                self.position += written

    def _fitting(self, lines: bytes) -> bytes:
        """As many lines as fit into this file, or into the next one if none fits."""
        room = self.max_bytes - self.size
        if len(lines) <= room:
            return lines
        end = lines.rfind(b"\n", 0, max(0, room)) + 1
        if end:
            return lines[:end]
        if self.size:
            self._rotate()
        whole = lines.rfind(b"\n", 0, self.max_bytes) + 1 or lines.find(b"\n") + 1 or len(lines)
        return lines[:whole]

    def tail(self, count: int, after: bytes = b"") -> list[str]:
        """The last lines, oldest first; with `after`, only those behind the last line that contains it."""
        lines: list[bytes] = []
        for path in self.files():
            try:
                lines = _last_lines(path, count - len(lines)) + lines
            except OSError:
                break
            if len(lines) >= count:
                break
        if after:
            for index in range(len(lines) - 1, -1, -1):
                if after in lines[index]:
                    lines = lines[index + 1 :]
                    break
        return [line.decode("utf-8", "replace") for line in lines]

    def files(self) -> list[Path]:
        """All files of the log, the newest first."""
        return [self._name(number) for number in range(self.keep + 1)]

    def close(self) -> None:
        os.close(self.fd)

    def _open(self) -> None:
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self.size = os.fstat(self.fd).st_size

    def _name(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")

    def _rotate(self) -> None:
        """The old file stays open until the new one is. If that fails, the old one is truncated: better lost lines than
        a full disk."""
        old = self.fd
        try:
            for number in range(self.keep - 1, -1, -1):
                if self._name(number).exists():
                    self._name(number).replace(self._name(number + 1))
            if self.keep == 0:
                self.path.unlink(missing_ok=True)
            self._open()
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(old, 0)
                self.size = 0
            return
        os.close(old)


def _last_lines(path: Path, count: int) -> list[bytes]:
    """The last lines of one file, read from its end in growing steps."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        step = 64 << 10
        while True:
            start = max(0, end - step)
            file.seek(start)
            lines = file.read(end - start).splitlines()
            if start == 0 or len(lines) > count:
                return lines[-count:] if count > 0 else []
            step *= 4
