"""Reads single keys while something live is on the screen, and leaves the terminal as it was."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Keyboard:
    """Of no terminal: only time passes."""

    def wait(self, seconds: float) -> str:
        """The key that was pressed within this time, or nothing."""
        select.select([], [], [], seconds)
        return ""


class Terminal(Keyboard):
    def wait(self, seconds: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) if ready else ""


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    if not sys.stdin.isatty():
        yield Keyboard()
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)  # keys without a return key; Ctrl-C stays what it is
        yield Terminal()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
