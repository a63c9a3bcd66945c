"""Logs of all slots: one thread reads what the relay passes on and writes it into the files."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from ..process.children import Child
from .intake import Intake
from .pipes import Pipes, Relay
from .reader import SEARCHED_BYTES, Line, Span, last_lines
from .rotation import RotatingLog

READ_EVERY_S = 0.05  # lines come in batches; bounds the time spent on an engine that writes too much
MAX_NEW_LINES = 500  # for a follower at once
MAX_NEW_BYTES = 64 << 10


class Logs:
    """Opens a pipe for each new process, and the log of each slot."""

    def __init__(self, folder: Path, max_bytes: int, keep: int, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.keep = keep
        folder.mkdir(parents=True, exist_ok=True)
        self._logs: dict[str, RotatingLog] = {}
        self._pipes: dict[str, Pipes] = {}
        self._intakes: dict[str, Intake] = {}
        self._lock = threading.Lock()
        self._poll = select.epoll()
        self._stop = threading.Event()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_CLOEXEC)
        self._poll.register(self._wake_reader, select.EPOLLIN)
        self.relay = Relay(env)
        self.relay.start(time.monotonic(), {})
        self._thread = threading.Thread(target=self._pump, name="logs", daemon=True)
        self._thread.start()

    def open(self, slot: str, engine_id: str) -> int:
        """The descriptor for a new child's stdout and stderr; call `handed_over` when the child has it."""
        pipes = Pipes.make()
        with self._lock:
            log = self._log(slot)
            log.write(_stamp() + f"--- {engine_id} starts\n".encode())
            self._pipes[engine_id] = pipes
            self._intakes[engine_id] = Intake(log)
            self._poll.register(pipes.inlet, select.EPOLLIN)
        self.relay.attach(engine_id, pipes)
        return pipes.output

    def handed_over(self, engine_id: str) -> None:
        self._pipes[engine_id].handed_over()

    def finish(self, engine_id: str) -> None:
        """After the child has ended: writes its last lines."""
        if engine_id not in self._pipes:
            return
        kept = self.relay.release(engine_id)
        stamp = _stamp()
        with self._lock:
            pipes, intake = self._pipes.pop(engine_id), self._intakes.pop(engine_id)
            self._poll.unregister(pipes.inlet)
            while intake.read(pipes.inlet, stamp):
                pass
            intake.take(kept, stamp)
            intake.read(pipes.source, stamp)  # once: a grandchild may write for ever
            intake.end(stamp)
            pipes.close()

    def check_relay(self, now: float) -> Child | None:
        """To be called often. Returns the new process after a restart of the relay."""
        self.relay.check(now)
        if not self.relay.startable(now):
            return None
        return self.relay.start(now, self._pipes)

    def tail(self, slot: str, count: int = 200, engine_id: str = "") -> list[str]:
        """The slot's last lines; with an engine id, only those of that process."""
        with self._lock:
            return self._log(slot).tail(count, f"--- {engine_id} starts".encode() if engine_id else b"")

    def last(self, slot: str, count: int, span: Span, *, search: bool = False) -> list[Line]:
        """As `tail`, for an operator: with positions, of a span of time, at most MAX_BYTES. `search`: all lines of the
        last SEARCHED_BYTES of the span."""
        with self._lock:
            log = self._log(slot)
            if search:
                return last_lines(log.files(), log.position, SEARCHED_BYTES, span=span, room=SEARCHED_BYTES)
            return last_lines(log.files(), log.position, count, span=span)

    def new(self, slot: str, after: int) -> list[Line]:
        """Lines after a position; at most the last MAX_NEW_LINES."""
        with self._lock:
            log = self._log(slot)
            if log.position <= after:
                return []
            return last_lines(log.files(), log.position, MAX_NEW_LINES, after=after, room=MAX_NEW_BYTES)

    def position(self, slot: str) -> int:
        with self._lock:
            return self._log(slot).position

    def has(self, slot: str) -> bool:
        """True if there is a log of this slot, also of one that was scaled down."""
        return slot in self._logs or (self.folder / f"{slot}.log").is_file()

    def note(self, slot: str, text: str) -> None:
        """Writes a line of the supervisor into the slot's log."""
        with self._lock:
            self._log(slot).write(_stamp() + f"--- {text}\n".encode())

    def close(self) -> None:
        self._stop.set()
        os.close(self._wake_writer)
        self._thread.join()
        for engine_id in list(self._pipes):
            self.finish(engine_id)
        self.relay.close()
        self._poll.close()
        os.close(self._wake_reader)
        for log in self._logs.values():
            log.close()

    def _log(self, slot: str) -> RotatingLog:
        if slot not in self._logs:
            self._logs[slot] = RotatingLog(self.folder / f"{slot}.log", self.max_bytes, self.keep)
        return self._logs[slot]

    def _pump(self) -> None:
        while not self._stop.is_set():
            alone = self.relay.child is None
            ready = {fd for fd, _ in self._poll.poll(READ_EVERY_S if alone else 1.0)}
            if not ready and not alone:
                continue
            stamp = _stamp()
            with self._lock:
                for engine_id, intake in self._intakes.items():
                    pipes = self._pipes[engine_id]
                    with contextlib.suppress(OSError):  # a broken disk must not end the thread that empties the pipes
                        if pipes.inlet in ready:
                            intake.read(pipes.inlet, stamp)
                        if alone:
                            intake.read(pipes.source, stamp)
            self._stop.wait(READ_EVERY_S)


def _stamp() -> bytes:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].encode() + b"Z "
