"""Events that other threads post to the main loop. A leaf of values; each names the thread that posts it."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.nodes.reports import HealthReport
from dalston_queue.broker.operations.reclaim import Reclaimed


@dataclass(frozen=True, slots=True)
class WorkReclaimed:
    """link: an engine's tasks are back in their queues."""

    engine_id: str
    reclaimed: Reclaimed


@dataclass(frozen=True, slots=True)
class Overdue:
    """link: a task on this node ran past its deadline. It is settled as timed out; its engine is still to be ended."""

    engine_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Commanded:
    """link: a command of an operator, sent by the API."""

    command: Command


@dataclass(frozen=True, slots=True)
class SpotNotice:
    """spot: the cloud takes this machine away in so many seconds; None: a mere recommendation."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Probed:
    """probes: a health check of an engine succeeded or failed."""

    slot: str
    engine_id: str
    ok: bool
    why: str
    health: HealthReport | None = None  # an engine's own answer


Event = WorkReclaimed | Overdue | Commanded | SpotNotice | Probed
