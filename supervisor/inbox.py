"""The inbox of the main loop: signals and events of other threads. Signal handlers only enqueue."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections import deque
from types import FrameType
from typing import Any

from .events import Event

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Inbox:
    """A queue that a select() can wait on."""

    def __init__(self) -> None:
        self._messages: deque[Event | signal.Signals] = deque()
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ)
        self._closed = False

    def catch_signals(self) -> None:
        for number in HANDLED:
            signal.signal(number, self._on_signal)

    def watch(self, source: Any) -> None:
        """`source` has a fileno(); data on it ends the wait."""
        self._selector.register(source, selectors.EVENT_READ)

    def unwatch(self, source: Any) -> None:
        self._selector.unregister(source)

    def post(self, message: Event | signal.Signals) -> None:
        """Safe in any thread and in signal handlers."""
        self._messages.append(message)
        if self._closed:  # a second SIGTERM, or the last SIGCHLD, while the supervisor ends
            return
        with contextlib.suppress(BlockingIOError):  # a full pipe ends the wait, too
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.fd == self._reader:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._reader, 65536)

    def messages(self) -> list[Event | signal.Signals]:
        taken: list[Event | signal.Signals] = []
        while self._messages:
            taken.append(self._messages.popleft())
        return taken

    def close(self) -> None:
        self._closed = True
        self._selector.close()
        os.close(self._reader)
        os.close(self._writer)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.post(signal.Signals(number))
