"""Our end of the relay (relay.py): starts it, gives it the engines' pipes, replaces it when it dies or stands still.

We hold every pipe as well, so that an engine never writes into nothing: without a relay the log thread reads itself.
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
SIZE = 1 << 20  # as much as an ordinary user may have; it takes memory only when it is full
ANSWER_S = 0.3
ASK_EVERY_S = 1.0
MOST_UNANSWERED = 3
RESTART_S = 1.0


@dataclass(slots=True)
class Pipes:
    """The way of one engine's output: it writes into `output`, the relay moves it on, the log thread reads `inlet`."""

    output: int  # for the child; closed once it has it
    source: int  # the other end of it
    sink: int
    inlet: int

    @classmethod
    def make(cls) -> Pipes:
        source, output = _pipe(SIZE)
        try:
            inlet, sink = _pipe(SIZE)
        except OSError:
            os.close(source)
            os.close(output)
            raise
        for fd in (source, sink, inlet):  # not the child's end: it has a right to a plain descriptor
            os.set_blocking(fd, False)
        return cls(output, source, sink, inlet)

    def handed_over(self) -> None:
        """The child has its end."""
        if self.output >= 0:
            os.close(self.output)
            self.output = -1

    def close(self) -> None:
        self.handed_over()
        for fd in (self.source, self.sink, self.inlet):
            os.close(fd)


class Relay:
    """Only the main thread speaks to it; `child` is None while there is none."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self.child: Child | None = None
        self._env = env
        self._control: socket.socket | None = None
        self._started_at = self._asked_at = 0.0
        self._unanswered = 0

    def start(self, now: float, pipes: dict[str, Pipes]) -> Child:
        """Not on our leash: an engine that dies with us must not find its pipe broken before that."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py")), str(theirs.fileno())],
            env=self._env,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(ANSWER_S)
        self._control = ours
        self._started_at = self._asked_at = now
        self._unanswered = 0
        self.child = Child(NAME, popen, start_time(popen.pid) or 0)
        for engine_id, each in pipes.items():
            self.attach(engine_id, each)
        return self.child

    def attach(self, engine_id: str, pipes: Pipes) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):  # it died a moment ago: its successor gets it
                socket.send_fds(self._control, [b"+" + engine_id.encode()], [pipes.source, pipes.sink])

    def release(self, engine_id: str) -> bytes:
        """It lets go of an engine's pipes; what it took and could not give yet."""
        if self._control is None:
            return b""
        name = engine_id.encode()
        try:
            self._control.send(b"-" + name)
            for answer in self._answers():
                who, _, kept = answer.partition(b"\n")
                if who == name:
                    return kept
        except OSError:
            log.warning("the log relay does not answer", engine=engine_id)
            self.kill()
        return b""

    def check(self, now: float) -> None:
        """Asks once per second whether it is alive; one that does not answer is replaced."""
        if self._control is None or now - self._asked_at < ASK_EVERY_S:
            return
        self._asked_at = now
        self._control.setblocking(False)
        self._unanswered += 1
        with contextlib.suppress(OSError):
            for _ in self._answers():
                self._unanswered = 0
        with contextlib.suppress(OSError):
            self._control.send(b"?")
        self._control.settimeout(ANSWER_S)
        if self._unanswered > MOST_UNANSWERED:  # counted, not timed: we may have been stopped ourselves
            log.warning("the log relay stands still and is replaced")
            self.kill()

    def kill(self) -> None:
        if self.child is not None:
            send(self.child.pid, signal.SIGKILL)

    def exited(self) -> None:
        """It was reaped."""
        self.child = None
        if self._control is not None:
            self._control.close()
            self._control = None

    def startable(self, now: float) -> bool:
        return self.child is None and now >= self._started_at + RESTART_S

    def close(self) -> None:
        """It ends by itself when the engines have."""
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
    with contextlib.suppress(OSError):  # a user with many pipes gets small ones: then more is dropped, nothing breaks
        fcntl(writer, F_SETPIPE_SZ, size)
    return reader, writer
