"""What other threads tell the main loop. A leaf of values; each says who posts it."""

from __future__ import annotations

from dataclasses import dataclass

from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.operations.reclaim import Reclaimed


@dataclass(frozen=True, slots=True)
class GivenBack:
    """link: an engine's work is back in line."""

    engine_id: str
    taken: Reclaimed


@dataclass(frozen=True, slots=True)
class Overdue:
    """link: a task of ours ran past its deadline. It is settled as timed out; its engine is still to be ended."""

    engine_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Commanded:
    """link: somebody wants something, by way of the API."""

    command: Command


@dataclass(frozen=True, slots=True)
class SpotNotice:
    """spot: the cloud takes this machine away in so many seconds; None: it only might."""

    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Probed:
    """probes: the health check of an engine answered, or did not."""

    slot: str
    engine_id: str
    ok: bool
    why: str


Happening = GivenBack | Overdue | Commanded | SpotNotice | Probed
