"""Asks before something is changed that cannot be taken back. Without a terminal --yes must say it."""

from __future__ import annotations

import sys

from dalston_client.cli.output import Out


def confirmed(out: Out, question: str, *, yes: bool) -> bool:
    """Whether to go on. Nothing is changed without a yes."""
    if yes:
        return True
    if not out.is_live or not sys.stdin.isatty():
        out.note(f"{question} Nothing was changed: add --yes.")
        return False
    out.errors.print(f"{question} [y/N] ", end="")
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    out.note("Nothing was changed.")
    return False
