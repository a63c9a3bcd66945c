"""Output of a command. With --json standard output has JSON only: one document, or a line per event or sample.

On a terminal tables are drawn by rich, which respects NO_COLOR. Elsewhere they are plain columns, never cut off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dalston_client.cli.exits import Exit, UsageError, described, exit_of
from dalston_client.cli.text import clean, clean_lines
from dalston_client.errors import Conflict, DalstonError, Invalid, NotFound

T = TypeVar("T")

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
        """main() ends quietly then; rich would print an error."""
        raise BrokenPipeError


class Out:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = _Console(highlight=False, markup=False, emoji=False)
        self.errors = Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def is_live(self) -> bool:
        """Whether the screen can be redrawn."""
        return self.console.is_terminal and not self.console.is_dumb_terminal and not self.as_json

    def json(self, value: Any, *, line: bool = False) -> None:
        sys.stdout.write(json.dumps(value, indent=None if line else 2, ensure_ascii=not _is_utf8()) + "\n")
        sys.stdout.flush()

    def say(self, words: str) -> None:
        """A line of the result, for people."""
        self.console.print(clean_lines(words), soft_wrap=True)

    def note(self, words: str) -> None:
        """A line on standard error, for people only."""
        if not self.as_json:
            self.errors.print(f"dalston: {clean(words)}", soft_wrap=True)

    def failed(self, exit_code: int, error: dict[str, Any], lines: Sequence[str] = ()) -> None:
        """An error: an object for programs; for people its detail, or these lines."""
        if self.as_json:
            sys.stderr.write(json.dumps({"error": {**error, "exit_code": int(exit_code)}}) + "\n")
            return
        trace = f" (trace {error['trace_id']})" if error.get("trace_id") and error["status"] >= 500 else ""
        for line in lines or [f"{error['detail']}{trace}"]:
            self.errors.print(f"dalston: {clean(line)}", soft_wrap=True)

    def answer(self, value: Any, words: str) -> None:
        """JSON for programs, or these words for people."""
        if self.as_json:
            self.json(value)
        else:
            self.say(words)

    def rows(self, value: Any, columns: Sequence[str], rows: Sequence[Sequence[object]], none: str) -> None:
        """JSON for programs, or a table for people."""
        if self.as_json:
            self.json(value)
        else:
            self.table(columns, rows, none)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], none: str) -> None:
        if not rows:
            self.note(none)
            return
        cells = [[clean(cell) for cell in row] for row in rows]
        if self.console.is_terminal:
            self.console.print(drawn(columns, cells))
            return
        widths = [max(len(column), *(len(row[index]) for row in cells)) for index, column in enumerate(columns)]
        for row in [list(columns), *cells]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.console.print(line, soft_wrap=True)

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask before a change that cannot be undone. Without a terminal --yes is needed."""
        if yes:
            return True
        if not self.is_live or not sys.stdin.isatty():
            raise UsageError(f"{question} Nothing was changed: add --yes.")
        self.errors.print(f"{question} [y/N] ", end="")
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return True
        self.note("Nothing was changed.")
        return False


def drawn(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Ids are copied by people, so they are never wrapped.
        table.add_column(column, no_wrap=column in {"job", "task", "dead letter", "batch"}, overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(cell), style=STYLES.get(str(cell), "")) for cell in row))
    return table


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


class Failure(NamedTuple):
    id: str
    error: DalstonError


def for_each(ids: Sequence[str], action: Callable[[str], T]) -> tuple[list[T], list[Failure]]:
    """The action for each id. An id that fails does not stop the others, unless they would fail as well."""
    done: list[T] = []
    failures: list[Failure] = []
    for each in ids:
        try:
            done.append(action(each))
        except DalstonError as error:
            failures.append(Failure(each, error))
            if not isinstance(error, Invalid | NotFound | Conflict):
                break
    return done, failures


def report_failures(out: Out, ids: Sequence[str], failures: Sequence[Failure]) -> Exit:
    """The first failure gives the exit code."""
    if not failures:
        return Exit.OK
    first = failures[0].error
    known = [(it.id, described(it.error)) for it in failures]
    failed = [{"id": some_id, "code": error["code"], "detail": error["detail"]} for some_id, error in known]
    lines = [f"{some_id}: {error['detail']}" for some_id, error in known] if len(ids) > 1 else []
    out.failed(exit_of(first), {**described(first), "failed": failed}, lines)
    return exit_of(first)
