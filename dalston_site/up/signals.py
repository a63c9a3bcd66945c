"""Ctrl-C, SIGTERM and a closed terminal: the first interrupts whatever `up` is doing, the next one forces the stop."""

import signal
from types import FrameType

from dalston_site.up.errors import Interrupted


class Signals:
    def __init__(self) -> None:
        self._stopping = False
        self._again = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._received)

    def stopping(self) -> None:
        """From now on a signal raises nothing: it means "faster"."""
        self._stopping = True

    def forced(self) -> bool:
        return self._again

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            self._again = True
            return
        self._stopping = True
        raise Interrupted(signal.Signals(number).name)
