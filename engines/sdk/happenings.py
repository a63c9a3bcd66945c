"""What the runner hears of through its inbox. A leaf of values."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker import Delivery

from .outcomes import Outcome
from .task import Task


@dataclass(slots=True)
class Finished:
    task: Task
    outcome: Outcome


@dataclass(slots=True)
class Woken:
    found: bool  # look for work
    claimed: list[Delivery] | None  # what came with the wake-up; None: nobody asked


class Stop:
    """SIGTERM: take nothing new and finish. The second one: hand back what is not finished."""


class Pause:
    """SIGUSR1: take nothing new until SIGUSR2."""


class Resume:
    pass


@dataclass(slots=True)
class Broken:
    """A worker's turn went wrong in a way that nobody foresaw: the process ends with an error."""

    error: BaseException


Happening = Finished | Woken | Stop | Pause | Resume | Broken
