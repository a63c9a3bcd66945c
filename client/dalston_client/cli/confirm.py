"""Asks before something is changed that cannot be taken back. Without a terminal --yes must say it."""

from __future__ import annotations

import sys

from dalston_client.cli.exits import UsageError
from dalston_client.cli.output import Out


def confirmed(out: Out, question: str, *, yes: bool) -> bool:
    """Whether to go on. Nothing is changed without a yes; where nobody can be asked, its absence is an error."""
    if yes:
        return True
    if not out.is_live or not sys.stdin.isatty():
        raise UsageError(f"{question} Nothing was changed: add --yes.")
    out.errors.print(f"{question} [y/N] ", end="")
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    out.note("Nothing was changed.")
    return False
