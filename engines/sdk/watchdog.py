"""Sends WATCHDOG=1 only while the work makes progress: a thread that beats while CUDA hangs would prove nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from .notify import notify
from .task import Task


class Watchdog:
    """`interval`: the longest silence the supervisor, or systemd (WATCHDOG_USEC), accepts; None: nobody watches."""

    def __init__(self, interval: float | None, send: Callable[..., bool] = notify) -> None:
        usec = os.environ.get("WATCHDOG_USEC")
        self.interval = interval or (int(usec) / 1e6 if usec else None)
        self._send = send
        self._last = 0.0

    def tick(self, running: Iterable[Task], now: float) -> None:
        """The silence that the watcher sees is that of the task which is silent for longest."""
        if self.interval is None:
            return
        progress = min((task.progress_at for task in running), default=now)
        if progress > self._last and now - self._last >= min(self.interval / 4, 5.0):
            self._last = now
            self._send("WATCHDOG=1")

    @property
    def period(self) -> float:
        """How often to tick."""
        return 1.0 if self.interval is None else min(1.0, self.interval / 4)
