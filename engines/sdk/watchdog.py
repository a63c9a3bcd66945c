"""Sends WATCHDOG=1 only while the work makes progress: a thread that beats while CUDA hangs would prove nothing.

It has a thread of its own all the same, because the runner's may wait for Redis, which is no hang. What it looks at is
the tasks' own progress; code that holds the interpreter's lock for ever silences this thread, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from .notify import notify
from .task import Task

PATIENCE = 30.0  # with a runner that has no tasks: longer than any call to Redis takes


class Watchdog:
    """`interval`: the longest silence the supervisor, or systemd (WATCHDOG_USEC), accepts; None: nobody watches."""

    def __init__(self, interval: float | None, send: Callable[..., bool] = notify) -> None:
        usec = os.environ.get("WATCHDOG_USEC")
        self.interval = interval or (int(usec) / 1e6 if usec else None)
        self.runner_at = time.monotonic()  # when the runner last came by
        self._send = send
        self._last = 0.0

    def start(self, running: Callable[[], Iterable[Task]]) -> None:
        if self.interval is not None:
            threading.Thread(target=self._run, args=(running, self.interval / 4), name="watchdog", daemon=True).start()

    def _run(self, running: Callable[[], Iterable[Task]], period: float) -> None:
        while True:
            self.tick(list(running()), time.monotonic())
            time.sleep(min(period, 5.0))

    def tick(self, running: Iterable[Task], now: float) -> None:
        """The silence that the watcher sees is that of the task which is silent for longest."""
        idle = now if now - self.runner_at < PATIENCE else self.runner_at
        progress = min((task.progress_at for task in running), default=idle)
        if progress > self._last:
            self._last = now
            self._send("WATCHDOG=1")
