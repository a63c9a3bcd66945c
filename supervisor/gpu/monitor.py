"""Monitor of the GPU probe: starts it, reads its lines, kills it when the driver hangs, restarts it later."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque

import msgspec

from ..process.children import Child, leash, send
from ..process.linux import start_time
from .reading import Reading

NAME = "gpu-probe"
STARTUP_S = 10.0  # for Python and the library, on a busy node


class GpuMonitor:
    """`reading` is the last one; None before the first. Never blocks."""

    def __init__(self, period: float = 5.0, deadline: float = 10.0, retry_after: float = 60.0) -> None:
        self.period = period
        self.deadline = deadline
        self.retry_after = retry_after
        self.reading: Reading | None = None
        self.read_at = 0.0
        self.child: Child | None = None
        self.samples: deque[Reading] = deque(maxlen=12)  # the last minute, as evidence of a crash
        self._input = self._output = -1
        self._buffer = b""
        self._next_start = 0.0
        self._killed = False

    def startable(self, now: float) -> bool:
        return self.child is None and now >= self._next_start

    def start(self, now: float, env: dict[str, str]) -> Child:
        stdin, self._input = os.pipe2(os.O_CLOEXEC)
        self._output, stdout = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(stdout, True)
        popen = subprocess.Popen(
            [*leash(), sys.executable, "-m", "supervisor.gpu.probe", str(self.period)],
            env=env,
            stdin=stdin,
            stdout=stdout,
            start_new_session=True,
        )
        os.close(stdin)
        os.close(stdout)
        self.child = Child(NAME, popen, start_time(popen.pid) or 0)
        self.read_at = now + STARTUP_S
        self._buffer = b""
        self._killed = False
        return self.child

    def fileno(self) -> int:
        return self._output

    def read(self, now: float) -> list[Reading]:
        """The readings that have arrived."""
        if self.child is None:
            return []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._output, 1 << 16):
                self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        readings = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):
                readings.append(msgspec.json.decode(line, type=Reading))
        if readings:
            self.reading, self.read_at = readings[-1], now
            self.samples.extend(readings)
        return readings

    def poke(self) -> None:
        """Asks for a reading now: memory of a dead engine may be free."""
        if self.child is not None:
            with contextlib.suppress(OSError):
                os.write(self._input, b"\n")

    def tick(self, now: float) -> None:
        """Kills a probe without a reading for too long: it hangs in the driver."""
        if self.child is not None and not self._killed and now - self.read_at > self.period + self.deadline:
            self._killed = True
            self.reading = Reading(problem=f"the NVIDIA driver did not answer within {self.deadline:.0f} s")
            send(self.child.pid, signal.SIGKILL, whole_group=True)

    def exited(self, now: float) -> None:
        """After it was reaped. Its last reading holds: a probe that found no GPU ends by itself."""
        self.read(now)
        os.close(self._input)
        os.close(self._output)
        if self.reading is None:
            self.reading = Reading(problem="the GPU probe ended without a reading")
        self.child = None
        self._next_start = now + self.retry_after

    def stop(self) -> None:
        if self.child is not None:
            send(self.child.pid, signal.SIGKILL, whole_group=True)
