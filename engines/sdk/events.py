"""Events in the runner's inbox: from its workers, from the waiter and from signals. A leaf of values."""

from __future__ import annotations

from dataclasses import dataclass

from .outcomes import Outcome
from .task import Task


@dataclass(slots=True)
class Finished:
    """A worker: the task has ended."""

    task: Task
    outcome: Outcome


class Woken:
    """The waiter: work may be there, or a second has passed."""


class Stop:
    """SIGTERM: claim nothing and finish. The second one: release what is not finished."""


class Pause:
    """SIGUSR1: claim nothing until SIGUSR2."""


class Resume:
    """SIGUSR2."""


Event = Finished | Woken | Stop | Pause | Resume
