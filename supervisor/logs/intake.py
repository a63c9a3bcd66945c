"""Intake of a log: splits engine output into lines, each with a timestamp, and notes where bytes were dropped."""

from __future__ import annotations

import os
import re

from .rotation import RotatingLog

READ_BYTES = 1 << 20  # at least the size of a pipe: a mark of the relay is never read in two halves
MAX_LINE_BYTES = 64 << 10
MARK = re.compile(rb"\n\0(\d+)\n")  # see relay.py


class Intake:
    """Output of one process on its way into its slot's log."""

    def __init__(self, log: RotatingLog) -> None:
        self.log = log
        self.partial = b""
        self.skipped = 0

    def read(self, pipe: int, stamp: bytes) -> int:
        """Reads the pipe; returns the number of bytes."""
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return 0
        self.take(data, stamp)
        return len(data)

    def take(self, data: bytes, stamp: bytes) -> None:
        data = self.partial + data
        if b"\n\0" in data:
            data = self._without_marks(data)
        end = data.rfind(b"\n") + 1
        self.partial = data[end:]
        if end:
            self.log.write(_stamped(_bounded(data[:end]), stamp))
        if len(self.partial) > MAX_LINE_BYTES:
            *whole, self.partial = _pieces(self.partial)
            self.log.write(_stamped(b"\n".join(whole) + b"\n", stamp))

    def end(self, stamp: bytes) -> None:
        """Writes the last line, which has no line end."""
        if self.partial:
            self.log.write(_stamped(self.partial + b"\n", stamp))
            self.partial = b""

    def _without_marks(self, data: bytes) -> bytes:
        """Replaces each mark, and the torn line before it, by a note."""
        parts: list[bytes] = []
        start = 0
        for found in MARK.finditer(data):
            whole = data.rfind(b"\n", start, found.start()) + 1 or start
            count = int(found[1][:15]) + found.start() - whole
            self.skipped += count
            parts += [data[start:whole], b"[%d bytes skipped: written faster than the log is kept]\n" % count]
            start = found.end()
        return b"".join([*parts, data[start:]])


def _bounded(lines: bytes) -> bytes:
    """Splits lines that are too long for a file or a reader's memory."""
    if len(lines) <= MAX_LINE_BYTES:
        return lines
    each = lines[:-1].split(b"\n")
    if max(map(len, each)) <= MAX_LINE_BYTES:
        return lines
    return b"\n".join(piece for line in each for piece in _pieces(line)) + b"\n"


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + MAX_LINE_BYTES] for at in range(0, len(line), MAX_LINE_BYTES)] or [b""]


def _stamped(lines: bytes, stamp: bytes) -> bytes:
    return stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
