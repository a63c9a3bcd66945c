"""The timeline of a task: each delivery, folded from its moves: the engine, from when to when, how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class RunOutcome(StrEnum):
    COMPLETED = "completed"
    """It gave a result."""
    RETRIED = "retried"
    """It failed, and another attempt follows."""
    RECOVERED = "recovered"
    """Its engine died or released it; the same attempt goes to another one."""
    REBUILT = "rebuilt"
    """Redis lost it; another attempt follows."""
    FAILED = "failed"
    """It failed, and it was optional."""
    DEAD_LETTER = "dead_letter"
    """It failed for the last time, or was rejected."""
    CANCELLED = "cancelled"
    """It was cancelled, or its job ended."""


@dataclass(frozen=True, slots=True)
class Run:
    attempt: int
    engine_id: str = ""
    started_at: datetime | None = None
    """None if the engine was done before its start was recorded."""
    finished_at: datetime | None = None
    outcome: RunOutcome | None = None
    """None: it runs."""
    cause: str = ""
    message: str = ""


class Move(Protocol):
    """A TaskEvent, or its columns."""

    @property
    def transition(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def engine_id(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def at(self) -> datetime: ...


_ENDS = {
    "complete": RunOutcome.COMPLETED,
    "retry": RunOutcome.RETRIED,
    "recover": RunOutcome.RECOVERED,
    "rebuild": RunOutcome.REBUILT,
    "fail": RunOutcome.FAILED,
    "dead_letter": RunOutcome.DEAD_LETTER,
    "cancel": RunOutcome.CANCELLED,
}
_NEXT_ATTEMPT = {"retry", "rebuild"}
"""These moves carry the attempt that they lead to, not the one that they end."""
_NEED_A_START = {"recover", "rebuild", "cancel"}
"""These may also happen to a task that only waited: then nothing ran, and nothing ended."""


def runs_of(moves: Iterable[Move]) -> list[Run]:
    """The runs of one task, oldest first, from its moves in their order."""
    runs: list[Run] = []
    for move in moves:
        open_run = runs[-1] if runs and runs[-1].outcome is None else None
        if move.transition == "start":
            if open_run is not None:  # its engine died, and the next start was reported before the death
                runs[-1] = replace(open_run, finished_at=move.at, outcome=RunOutcome.RECOVERED)
            runs.append(Run(move.attempt, move.engine_id, move.at))
        elif move.transition in _ENDS and (open_run or move.transition not in _NEED_A_START):
            ended = open_run or Run(move.attempt - (move.transition in _NEXT_ATTEMPT), move.engine_id)
            ended = replace(
                ended,
                finished_at=move.at,
                outcome=_ENDS[move.transition],
                cause=move.cause,
                message=move.message,
            )
            runs[len(runs) - 1 if open_run else len(runs) :] = [ended]
    return runs
