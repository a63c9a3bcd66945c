"""The logs of all engines of the node: one thread copies what the children write, stamps and rotates it."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime
from pathlib import Path

from .logreader import Line, Span, last_lines
from .rotation import RotatingLog
from .spool import Spool

POLL = 0.05
MOST_NEW = 500  # lines for a follower at one look
MOST_NEW_BYTES = 64 << 10


class Logs:
    """Gives each child a file to write to and each slot a log to read from."""

    def __init__(self, folder: Path, max_bytes: int, keep: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.keep = keep
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("*.spool"):  # of a supervisor that was killed
            stale.unlink(missing_ok=True)
        self._logs: dict[str, RotatingLog] = {}
        self._spools: dict[str, Spool] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pump, name="logs", daemon=True)
        self._thread.start()

    def open(self, slot: str, engine_id: str) -> int:
        """The descriptor for a new child's stdout and stderr."""
        with self._lock:
            log = self._log(slot)
            log.write(_stamp() + f"--- {engine_id} starts\n".encode())
            spool = Spool(self.folder / f"{engine_id}.spool", log)
            self._spools[engine_id] = spool
            return spool.fd

    def finish(self, engine_id: str) -> None:
        """The child is gone: its last words go into the log now."""
        with self._lock:
            spool = self._spools.pop(engine_id, None)
            if spool:
                spool.finish(_stamp())

    def tail(self, slot: str, count: int = 200, engine_id: str = "") -> list[str]:
        """The slot's last lines; only those of one process, if its id is given."""
        with self._lock:
            return self._log(slot).tail(count, f"--- {engine_id} starts".encode() if engine_id else b"")

    def last(self, slot: str, count: int, span: Span) -> list[Line]:
        """The same for those who ask from afar: with positions, of a span of time, and never more than some."""
        with self._lock:
            log = self._log(slot)
            return last_lines(log.files(), log.position, count, span=span)

    def new(self, slot: str, after: int) -> list[Line]:
        """Lines that came after a position; the last of them, if they are many."""
        with self._lock:
            log = self._log(slot)
            if log.position <= after:
                return []
            return last_lines(log.files(), log.position, MOST_NEW, after=after, room=MOST_NEW_BYTES)

    def position(self, slot: str) -> int:
        with self._lock:
            return self._log(slot).position

    def has(self, slot: str) -> bool:
        """There is a log of this slot, perhaps of one that was scaled away."""
        return slot in self._logs or (self.folder / f"{slot}.log").is_file()

    def note(self, slot: str, text: str) -> None:
        """A line of our own in the slot's log."""
        with self._lock:
            self._log(slot).write(_stamp() + f"--- {text}\n".encode())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for engine_id in list(self._spools):
            self.finish(engine_id)
        for log in self._logs.values():
            log.close()

    def _log(self, slot: str) -> RotatingLog:
        if slot not in self._logs:
            self._logs[slot] = RotatingLog(self.folder / f"{slot}.log", self.max_bytes, self.keep)
        return self._logs[slot]

    def _pump(self) -> None:
        while not self._stop.wait(POLL):
            stamp = _stamp()
            with self._lock:
                for spool in self._spools.values():
                    with contextlib.suppress(OSError):  # an ill disk must not end the thread that keeps it from filling
                        spool.drain(stamp)


def _stamp() -> bytes:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].encode() + b"Z "
