"""The console: each line starts with the name of its process, in a colour."""

import os
import sys
import threading

COLOURS = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94]
WIDTH = 14


class Console:
    """Whole lines from many threads. Output to a closed pipe or terminal is dropped."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal may interrupt a write of the same thread
        self._colours: dict[str, int] = {}
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def line(self, name: str, text: str) -> None:
        label = f"{name:<{WIDTH}} |"
        if self._coloured:
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            label = f"\x1b[{colour}m{label}\x1b[0m"
        self._write(f"{label} {text}\n")

    def write(self, text: str) -> None:
        """A message of `up` itself."""
        for line in text.splitlines():
            self.line("up", line)

    def plain(self, text: str) -> None:
        self._write(text)

    def _write(self, text: str) -> None:
        with self._lock:
            try:
                sys.stdout.write(text)
                sys.stdout.flush()
            except OSError:
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 (for the rest of this process's life)
