"""Outcomes of a task, as values: an engine returns one of these; a plain result means `Done(result)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MESSAGE_BYTES = 8 * 1024
TRACEBACK_BYTES = 32 * 1024
_NOTE_BYTES = 64  # room for the note about the cut


@dataclass(frozen=True, slots=True)
class Done:
    """The task succeeded. The result must be JSON-encodable; a large one goes through the artifact store."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed; try again `after` seconds from now (None: the retry policy decides)."""

    message: str
    after: float | None = None
    rate_limited: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    """The task can never succeed (bad input): a dead letter at once, without retries."""

    message: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The engine saw `task.cancelled` and stopped."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine's code raised. Made by the runner, never by an author."""

    message: str
    type: str
    traceback: str
    gpu_oom: bool = False
    retriable: bool | None = None


Outcome = Done | Retry | Reject | Cancelled | Failed


class TaskCancelled(Exception):
    """Raised by `task.check()` in a cancelled task; the runner turns it into `Cancelled`."""


class TaskError(Exception):
    """Raise it to fail the attempt and say whether another one may succeed; without retries it is a dead letter."""

    def __init__(self, message: str, *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable


class BrokenConfigError(Exception):
    """Raise it in `load` when a restart can't help (a model that doesn't exist ...): the process exits with 78."""


def text(value: object, limit: int = MESSAGE_BYTES) -> str:
    """An author's value as text that can be sent: no surrogates, at most `limit` bytes. Never raises.

    Of a text that is too long both ends are kept: the subject, and the last lines."""
    try:
        encoded = str.encode(str(value), "utf-8", "backslashreplace")
    except BaseException:  # noqa: BLE001 (an author's own __str__, which may even exit)
        return f"a {type(value).__name__} that can't be shown as text"
    if len(encoded) <= limit:
        return encoded.decode()
    half = (limit - _NOTE_BYTES) // 2
    start, end = (part.decode(errors="ignore") for part in (encoded[:half], encoded[-half:]))
    return f"{start}\n[… {len(encoded) - 2 * half} bytes cut …]\n{end}"
