"""Reasons to stop: an error, or a signal. A second signal forces the stop."""

import signal
from types import FrameType


class UpError(Exception):
    """`up` can't go on. The message says why and what to do; the exit code is 1."""


class Interrupted(BaseException):  # not an Exception: nothing on the way may swallow it
    """Ctrl-C or SIGTERM: stop everything, in good order."""


class Signals:
    """SIGINT, SIGTERM and SIGHUP: the first interrupts `up`, the next one forces the stop."""

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
