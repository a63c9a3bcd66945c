"""Windows: how many entries of a lane and tier are QUEUED in Redis at a time. Pure.

A short window keeps the order fair: what is in Redis already goes before a client that comes now. It must only last
until the next refill, which comes within milliseconds of a start, or within a second of a lost hint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.keys import queue_of_lane
from dalston_queue.broker.protocol.types import TIERS, EngineState, Tier

LaneTier = tuple[str, str]
"""Lane (models/task.py) and tier."""

ROUNDS = 2
"""A window holds so many tasks for each slot of the engines that serve its lane."""

STARTS = 4
"""A window holds so many times what engines started in the batch of events that asks for its refill. So it doubles with
each batch while tasks take milliseconds, and stays short while they take seconds."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The sizes of all windows, and which of them come first, from the engines that are alive and what they have just
    started."""

    at_least: int
    engines: tuple[EngineInfo, ...] = ()
    started: Mapping[LaneTier, int] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()  # queues
    _capacity: dict[str, int] = field(default_factory=dict)

    def size(self, lane_tier: LaneTier) -> int:
        lane, _ = lane_tier
        return max(self.at_least, ROUNDS * self._slots(lane), STARTS * self.started.get(lane_tier, 0))

    def rank(self, lane_tier: LaneTier) -> tuple[bool, int]:
        """The windows that engines claim from first have the least; those that none claims from the greatest."""
        lane, tier = lane_tier
        is_idle = queue_of_lane(lane) in self.paused or not self._slots(lane)
        return is_idle, TIERS.index(Tier(tier))

    def _slots(self, lane: str) -> int:
        if lane not in self._capacity:
            self._capacity[lane] = capacity(lane, self.engines)
        return self._capacity[lane]


def capacity(lane: str, engines: Iterable[EngineInfo]) -> int:
    """The slots of the ready engines that can run the tasks of this lane."""
    queue, _, needed = lane.partition("@")
    wanted = set(needed.split("+")) if needed else set()
    return sum(
        engine.capacity
        for engine in engines
        if engine.state is EngineState.READY and queue in engine.queues and wanted <= set(engine.capabilities)
    )
