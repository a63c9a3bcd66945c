"""Exit codes and their meanings. A test compares them with docs/client.md."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from dalston_client.errors import (
    ApiError,
    Busy,
    Conflict,
    DalstonError,
    Invalid,
    NotConfigured,
    NotFound,
    Refused,
)


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    INVALID = 7
    BUSY = 8
    NOT_YET = 9
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "it worked; with --wait or --watch the job completed, too",
    Exit.FAILED: "a job or some recordings failed or were cancelled, a replay was refused, or a node's command failed",
    Exit.USAGE: "the command line is wrong, or the address, the token or --yes is missing",
    Exit.UNREACHABLE: "the server did not answer, or cannot answer now (5xx)",
    Exit.REFUSED: "the token is not valid, or may not do this",
    Exit.NOT_FOUND: "it does not exist, or belongs to another project",
    Exit.CONFLICT: "the state does not allow it (any more)",
    Exit.INVALID: "the server refuses the request as invalid",
    Exit.BUSY: "too many calls, or the queue is full: try again later",
    Exit.NOT_YET: "the timeout has passed, and the task or job is not over",
    Exit.INTERRUPTED: "Ctrl-C",
}

_OF = {
    NotConfigured: Exit.USAGE,
    Invalid: Exit.INVALID,
    Refused: Exit.REFUSED,
    NotFound: Exit.NOT_FOUND,
    Conflict: Exit.CONFLICT,
    Busy: Exit.BUSY,
}


def exit_of(error: DalstonError) -> Exit:
    """All other errors mean that the server is unreachable or unavailable."""
    return _OF.get(type(error), Exit.UNREACHABLE)


def described(error: DalstonError) -> dict[str, Any]:
    """As JSON for programs."""
    if not isinstance(error, ApiError):
        return {"code": type(error).__name__.lower(), "detail": str(error)}
    known = {"code": error.code, "detail": error.detail, "status": error.status, "trace_id": error.trace_id}
    return {**known, "errors": error.errors} if error.errors else known


class UsageError(Exception):
    """A usage error that argparse cannot detect; exit code 2."""
