"""The timeline of a task: its deliveries, folded from its transitions: engine, start, end, outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class DeliveryOutcome(StrEnum):
    COMPLETED = "completed"
    RETRIED = "retried"  # the task failed, and another attempt follows
    RECOVERED = "recovered"  # the engine died or released the task; the same attempt is delivered again
    REBUILT = "rebuilt"  # Redis lost the entry; another attempt follows
    FAILED = "failed"  # the task failed, and is optional
    DEAD_LETTER = "dead_letter"  # the task failed for the last time, or was rejected
    CANCELLED = "cancelled"  # the task was cancelled, or its job ended


@dataclass(frozen=True, slots=True)
class Delivery:
    attempt: int
    engine_id: str = ""
    started_at: datetime | None = None
    """None if the engine settled the task before its start was recorded."""
    finished_at: datetime | None = None
    outcome: DeliveryOutcome | None = None
    """None while the task runs."""
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
    "complete": DeliveryOutcome.COMPLETED,
    "retry": DeliveryOutcome.RETRIED,
    "recover": DeliveryOutcome.RECOVERED,
    "rebuild": DeliveryOutcome.REBUILT,
    "fail": DeliveryOutcome.FAILED,
    "dead_letter": DeliveryOutcome.DEAD_LETTER,
    "cancel": DeliveryOutcome.CANCELLED,
}
_NEXT_ATTEMPT = {"retry", "rebuild"}
"""The rows of these transitions have the attempt that they lead to, not the one that they end."""
_NEED_A_START = {"recover", "rebuild", "cancel"}
"""These may also happen to a task that only waited: then no delivery ended."""


def timeline_of(moves: Iterable[Move]) -> list[Delivery]:
    """The deliveries of one task, oldest first, from its transitions in their order."""
    deliveries: list[Delivery] = []
    for move in moves:
        live = deliveries[-1] if deliveries and deliveries[-1].outcome is None else None
        if move.transition == "start":
            if live is not None:  # its engine died, and the next start was reported before the death
                deliveries[-1] = replace(live, finished_at=move.at, outcome=DeliveryOutcome.RECOVERED)
            deliveries.append(Delivery(move.attempt, move.engine_id, move.at))
        elif move.transition in _ENDS and (live or move.transition not in _NEED_A_START):
            ended = live or Delivery(move.attempt - (move.transition in _NEXT_ATTEMPT), move.engine_id)
            ended = replace(
                ended,
                finished_at=move.at,
                outcome=_ENDS[move.transition],
                cause=move.cause,
                message=move.message,
            )
            deliveries[len(deliveries) - 1 if live else len(deliveries) :] = [ended]
    return deliveries
