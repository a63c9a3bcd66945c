"""The file that a child writes its output into. Not a pipe: nothing that we do or fail to do blocks the child.

The child appends; we read behind it and free what was read by punching holes, so offsets only grow.
When it writes faster than we copy, the middle is skipped, and the log says how much.
"""

from __future__ import annotations

import os
from pathlib import Path

from .linux import punch_hole
from .rotation import RotatingLog

CHUNK = 1 << 20
LIMIT = 8 << 20  # unread bytes on disk before we skip
LONGEST_LINE = 64 << 10


class Spool:
    """One child's output on its way into its slot's log."""

    def __init__(self, path: Path, log: RotatingLog) -> None:
        self.path = path
        self.log = log
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self.offset = 0
        self.freed = 0
        self.skipped = 0
        self.torn = False  # after a skip we are in the middle of a line

    def drain(self, stamp: bytes, last: bool = False) -> bool:
        """Copies at most one chunk of whole lines. Says whether there was anything to do."""
        size = os.fstat(self.fd).st_size
        backlog = size - self.offset
        if backlog > LIMIT:
            self._skip(size - CHUNK, stamp)
        data = os.pread(self.fd, CHUNK, self.offset)
        used = len(data) if last and len(data) < CHUNK else data.rfind(b"\n") + 1
        if used == 0 and len(data) > LONGEST_LINE:
            used = len(data)
        if used == 0:
            return False
        lines = data[:used]
        if self.torn:
            lines = lines[lines.find(b"\n") + 1 :]
            self.torn = False
        if lines:
            self.log.write(_stamped(lines, stamp))
        self.offset += used
        self._free()
        return True

    def finish(self, stamp: bytes) -> None:
        """After the child's end: everything that is left, then the file itself."""
        while self.drain(stamp, last=True):
            pass
        os.close(self.fd)
        self.path.unlink(missing_ok=True)

    def _skip(self, to: int, stamp: bytes) -> None:
        count = to - self.offset
        self.skipped += count
        self.offset = to
        self.torn = True
        self.log.write(_stamped(b"[%d bytes skipped: written faster than the log is kept]\n" % count, stamp))
        self._free()

    def _free(self) -> None:
        if self.offset - self.freed >= CHUNK:
            # Without hole punching (an odd file system) the file shrinks to nothing when we have read all of it.
            if (
                not punch_hole(self.fd, self.freed, self.offset - self.freed)
                and os.fstat(self.fd).st_size == self.offset
            ):
                os.ftruncate(self.fd, 0)
                self.offset = 0
            self.freed = self.offset


def _stamped(lines: bytes, stamp: bytes) -> bytes:
    if not lines.endswith(b"\n"):
        lines += b"\n"
    return stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
