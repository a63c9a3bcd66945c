"""What a run of a task can come to, as values. An engine returns one of these; a plain result means `Done(result)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Done:
    """The task succeeded. The result must be JSON-encodable; larger things belong into `task.artifacts`."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed this time; try again later, `after` seconds from now (the retry policy decides if None)."""

    message: str
    after: float | None = None
    rate_limited: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    """It can never succeed (bad input): a dead letter at once, without retries."""

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


Outcome = Done | Retry | Reject | Cancelled | Failed


class TaskCancelled(Exception):
    """Raised by `task.check()` in a cancelled task; the runner turns it into `Cancelled`."""


class BrokenConfigError(Exception):
    """Raise it in `load` when starting again can't help (a model that doesn't exist ...): the process exits with 78."""
