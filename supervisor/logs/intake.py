"""Makes a log of what an engine writes: whole lines, each with its stamp, and a note where something is missing."""

from __future__ import annotations

import os
import re

from .rotation import RotatingLog

READ = 1 << 20  # no less than a pipe holds: so a mark of the relay is never read in two halves
LONGEST_LINE = 64 << 10
MARK = re.compile(rb"\n\0(\d+)\n")  # see relay.py


class Intake:
    """One process' output on its way into its slot's log."""

    def __init__(self, log: RotatingLog) -> None:
        self.log = log
        self.partial = b""
        self.skipped = 0

    def read(self, pipe: int, stamp: bytes) -> int:
        """Takes what is there; says how many bytes that were."""
        try:
            data = os.read(pipe, READ)
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
        if len(self.partial) > LONGEST_LINE:
            *whole, self.partial = _pieces(self.partial)
            self.log.write(_stamped(b"\n".join(whole) + b"\n", stamp))

    def end(self, stamp: bytes) -> None:
        """No more will come: the last line counts although it has no end."""
        if self.partial:
            self.log.write(_stamped(self.partial + b"\n", stamp))
            self.partial = b""

    def _without_marks(self, data: bytes) -> bytes:
        """A note instead of each, and of the torn line before it."""
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
    """No line is so long that it would not fit into a file, or into a reader's memory."""
    if len(lines) <= LONGEST_LINE:
        return lines
    each = lines[:-1].split(b"\n")
    if max(map(len, each)) <= LONGEST_LINE:
        return lines
    return b"\n".join(piece for line in each for piece in _pieces(line)) + b"\n"


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE)] or [b""]


def _stamped(lines: bytes, stamp: bytes) -> bytes:
    return stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
