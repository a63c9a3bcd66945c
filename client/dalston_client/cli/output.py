"""What a command writes. With --json standard output carries JSON only: one document, or a line each from a live one.

On a terminal tables are drawn by rich, which respects NO_COLOR. Elsewhere they are plain columns, never cut off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dalston_client.cli.text import clean, clean_lines

STYLES = {
    "completed": "green",
    "done": "green",
    "ready": "green",
    "active": "green",
    "running": "cyan",
    "failed": "red",
    "dead_letter": "red",
    "dead": "red",
    "unhealthy": "red",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "draining": "yellow",
    "paused": "yellow",
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """main() ends quietly then; rich would say that something failed."""
        raise BrokenPipeError


class Out:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = _Console(highlight=False, markup=False, emoji=False)
        self.errors = Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def is_live(self) -> bool:
        """Whether something on the screen may be drawn anew."""
        return self.console.is_terminal and not self.console.is_dumb_terminal and not self.as_json

    def json(self, value: Any, *, line: bool = False) -> None:
        sys.stdout.write(json.dumps(value, indent=None if line else 2, ensure_ascii=not _speaks_utf8()) + "\n")
        sys.stdout.flush()

    def say(self, words: str) -> None:
        """A line of the answer, for people."""
        self.console.print(clean_lines(words), soft_wrap=True)

    def note(self, words: str) -> None:
        """A line beside the answer: on standard error, and not for programs."""
        if not self.as_json:
            self.errors.print(f"dalston: {clean(words)}", soft_wrap=True)

    def failed(self, exit_code: int, error: dict[str, Any], lines: Sequence[str] = ()) -> None:
        """An error: an object for programs, a line for people, or these lines."""
        if self.as_json:
            sys.stderr.write(json.dumps({"error": {**error, "exit_code": int(exit_code)}}) + "\n")
            return
        trace = f" (trace {error['trace_id']})" if error.get("trace_id") and error["status"] >= 500 else ""
        for line in lines or [f"{error['detail']}{trace}"]:
            self.errors.print(f"dalston: {clean(line)}", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], none: str) -> None:
        if not rows:
            self.note(none)
            return
        cells = [[clean(cell) for cell in row] for row in rows]
        if self.console.is_terminal:
            self.console.print(drawn(columns, cells))
            return
        widths = [max(len(column), *(len(row[place]) for row in cells)) for place, column in enumerate(columns)]
        for row in [list(columns), *cells]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.console.print(line, soft_wrap=True)


def drawn(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Ids are there to be copied: everything else gives way to them.
        table.add_column(column, no_wrap=column in {"job", "task", "dead letter", "order"}, overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(cell), style=STYLES.get(str(cell), "")) for cell in row))
    return table


def _speaks_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
