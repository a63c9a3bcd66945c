"""Nodes and engines: beats, states, and the judge's verdicts.

A beat moves a counter; nobody compares clocks. The judge (the leading orchestrator) reads pulses, condemns a pulse that
did not move, and everybody else only reads verdicts. A verdict names the counter it was judged at, so one more beat
makes it void: a lapsed engine that beats again is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dalston_queue.broker.types import EngineState, NodeState

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker


class EngineBeat(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an engine in a beat."""

    engine_id: str
    state: EngineState
    queues: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    capacity: int = 1
    info: dict[str, Any] = {}  # anything to show: pid, version, cpu, memory, gpu, reason …


class EngineInfo(EngineBeat, frozen=True, kw_only=True):
    node_id: str = ""
    beat: int = 0
    at_ms: int = 0  # clock of the one who beat: to show, not to judge


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    node_id: str
    state: NodeState
    beat: int = 0
    at_ms: int = 0
    info: dict[str, Any] = {}


class Pulse(msgspec.Struct, frozen=True):
    """The beat counters of one engine, by queue. Two equal pulses: it did not beat in between."""

    engine_id: str
    counters: dict[str, int]


class Registry:
    def __init__(self, broker: Broker) -> None:
        raise NotImplementedError

    def beat_node(
        self, node_id: str, state: NodeState, engines: Sequence[EngineBeat], info: dict[str, Any] | None = None
    ) -> None:
        """One pipeline for the node and all its engines."""
        raise NotImplementedError

    def beat_engine(self, engine: EngineBeat, node_id: str = "") -> None:
        """For an engine that runs alone, without a supervisor."""
        raise NotImplementedError

    def nodes(self) -> list[NodeInfo]:
        raise NotImplementedError

    def engines(self) -> list[EngineInfo]:
        """All engines that beat within the last day; state is `dead` for those judged dead and not back since."""
        raise NotImplementedError

    def pulses(self) -> dict[str, Pulse]:
        """Beat counters of every engine that has a session or beat for a queue, by engine id."""
        raise NotImplementedError

    def condemn(self, pulse: Pulse) -> None:
        """The judge's verdict: dead, at this pulse. Void as soon as the engine beats again."""
        raise NotImplementedError

    def condemn_node(self, node: NodeInfo) -> None:
        raise NotImplementedError

    def dead(self, queue: str) -> list[str]:
        """Engines of this queue that are judged dead and have not beaten since."""
        raise NotImplementedError

    def forget(self, engine_ids: Iterable[str] = (), node_ids: Iterable[str] = ()) -> None:
        """Remove from the registry: an engine that stopped in good order, a node that is gone."""
        raise NotImplementedError
