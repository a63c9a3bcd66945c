"""The supervisor's end of the relay (relay.py): starts it, passes it pipes, replaces it when it dies or hangs.

The supervisor holds every pipe as well: without a relay no engine gets SIGPIPE, and the log thread reads the pipes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

import structlog

from ..process.children import Child, send
from ..process.linux import start_time

log = structlog.get_logger("supervisor.logs")

NAME = "log-relay"
PIPE_BYTES = 1 << 20  # the limit of an ordinary user; an empty pipe takes no memory
REPLY_TIMEOUT_S = 0.3
CHECK_EVERY_S = 1.0
MAX_UNANSWERED = 3
RESTART_AFTER_S = 1.0


@dataclass(slots=True)
class Pipes:
    """Pipes of an engine: it writes to `output`, the relay copies `source` to `sink`, the log thread reads `inlet`."""

    output: int  # for the child; closed here once the child has it
    source: int  # the other end of `output`
    sink: int
    inlet: int

    @classmethod
    def make(cls) -> Pipes:
        source, output = _pipe(PIPE_BYTES)
        try:
            inlet, sink = _pipe(PIPE_BYTES)
        except OSError:
            os.close(source)
            os.close(output)
            raise
        for fd in (source, sink, inlet):  # not `output`: programs expect blocking descriptors
            os.set_blocking(fd, False)
        return cls(output, source, sink, inlet)

    def handed_over(self) -> None:
        """After the child got its end."""
        if self.output >= 0:
            os.close(self.output)
            self.output = -1

    def close(self) -> None:
        self.handed_over()
        for fd in (self.source, self.sink, self.inlet):
            os.close(fd)


class Relay:
    """For the main thread only. `child` is None while no relay runs."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self.child: Child | None = None
        self._env = env
        self._control: socket.socket | None = None
        self._started_at = self._asked_at = 0.0
        self._unanswered = 0

    def start(self, now: float, pipes: dict[str, Pipes]) -> Child:
        """Without PDEATHSIG: the pipes of engines must not break before the engines end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py")), str(theirs.fileno())],
            env=self._env,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(REPLY_TIMEOUT_S)
        self._control = ours
        self._started_at = self._asked_at = now
        self._unanswered = 0
        self.child = Child(NAME, popen, start_time(popen.pid) or 0)
        for engine_id, each in pipes.items():
            self.attach(engine_id, each)
        return self.child

    def attach(self, engine_id: str, pipes: Pipes) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):  # it just died: the next relay gets them
                socket.send_fds(self._control, [b"+" + engine_id.encode()], [pipes.source, pipes.sink])

    def release(self, engine_id: str) -> bytes:
        """Makes the relay close an engine's pipes; returns the bytes that it had not passed on."""
        if self._control is None:
            return b""
        name = engine_id.encode()
        try:
            self._control.send(b"-" + name)
            for answer in self._answers():
                owner, _, kept = answer.partition(b"\n")
                if owner == name:
                    return kept
        except OSError:
            log.warning("the log relay does not answer", engine_id=engine_id)
            self.kill()
        return b""

    def check(self, now: float) -> None:
        """Pings the relay once per second and kills one that does not reply, to be replaced."""
        if self._control is None or now - self._asked_at < CHECK_EVERY_S:
            return
        self._asked_at = now
        self._control.setblocking(False)
        self._unanswered += 1
        with contextlib.suppress(OSError):
            for _ in self._answers():
                self._unanswered = 0
        with contextlib.suppress(OSError):
            self._control.send(b"?")
        self._control.settimeout(REPLY_TIMEOUT_S)
        if self._unanswered > MAX_UNANSWERED:  # counted, not timed: this process may have been stopped itself
            log.warning("the log relay hangs and is replaced")
            self.kill()

    def kill(self) -> None:
        if self.child is not None:
            send(self.child.pid, signal.SIGKILL)

    def exited(self) -> None:
        """After it was reaped."""
        self.child = None
        if self._control is not None:
            self._control.close()
            self._control = None

    def startable(self, now: float) -> bool:
        return self.child is None and now >= self._started_at + RESTART_AFTER_S

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self.child is not None:
            self.kill()
            self.child.popen.wait()
            self.child = None

    def _answers(self) -> Iterator[bytes]:
        while self._control is not None and (answer := self._control.recv(1 << 17)):
            yield answer


def _pipe(size: int) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a user with many pipes gets small ones: then more is dropped
        fcntl(writer, F_SETPIPE_SZ, size)
    return reader, writer
