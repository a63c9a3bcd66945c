"""The inbox: events that were read and are not applied yet. Projects take turns in it.

While one project alone has events, as many are applied in one transaction as were read. While several have, a
transaction takes few, and what arrives meanwhile is read before the next one: another project's event waits for one
short transaction, not for all that was read before it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dalston_queue.broker.protocol.messages import Event
from dalston_queue.orchestrator.chunks import Item, Turn, Weight, job_id_of, next_turn, weights_of

MAX_EVENTS = 1200
"""No more are read while so many wait: they must be applied before another orchestrator takes them over."""

SHARED_EVENTS = 100
"""Events of one transaction while projects share the orchestrator."""

LIGHT = 20
"""Events, and stages to make READY, of a project that need not wait for those with more."""

SHARED_S = 2.0
"""So long after the last events of two projects at a time they count as sharing it."""

_Key = tuple[int, str, str, int]


@dataclass(slots=True)
class Inbox:
    batch: int  # events of one transaction of a project that is alone
    _items: list[Item] = field(default_factory=list)
    _keys: set[_Key] = field(default_factory=set)
    _weights: dict[str, Weight] = field(default_factory=dict)
    _shared_until: float = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= MAX_EVENTS

    @property
    def is_shared(self) -> bool:
        return time.monotonic() < self._shared_until

    def add(self, batch: Sequence[Item]) -> None:
        """Light jobs come first. After an error the reader reads again what is here already."""
        new = [item for item in batch if _key(item) not in self._keys]
        if not new:
            return
        self._items += new
        self._keys.update(filter(None, map(_key, new)))
        if not self.is_shared and len(set(map(job_id_of, self._items))) == 1:
            return  # of an idle system: what its project is makes no difference
        known = self._weights = self._weights | weights_of(self._items if not self._weights else new)
        self._items[-len(new) :] = sorted(new, key=lambda item: known.get(job_id_of(item), Weight()).stages)
        if len({weight.project for weight in known.values()}) > 1:
            self._shared_until = time.monotonic() + SHARED_S

    def turn(self) -> Turn:
        """Take the next events out, and the hints that are left to the poll."""
        return self._without(next_turn(self._items, self._weights, SHARED_EVENTS if self.is_shared else self.batch))

    def light_turn(self) -> list[Item]:
        """Take the events of projects that have few out, while another one has many."""
        sizes: Counter[str] = Counter()
        for item in self._items:
            sizes[self._project(item)] += 1
        for weight in self._weights.values():
            sizes[weight.project] += weight.stages
        if len(sizes) < 2 or max(sizes.values()) <= LIGHT:
            return []
        light = [item for item in self._items if sizes[self._project(item)] <= LIGHT]
        part, *_ = next_turn(light, self._weights, SHARED_EVENTS)
        taken = set(map(id, part))
        return self._without(Turn(part, [item for item in self._items if id(item) not in taken], [])).part

    def _project(self, item: Item) -> str:
        return self._weights.get(job_id_of(item), Weight()).project

    def _without(self, turn: Turn) -> Turn:
        self._items = turn.rest
        self._keys = set(filter(None, map(_key, turn.rest)))
        jobs = set(map(job_id_of, turn.rest))
        self._weights = {job: weight for job, weight in self._weights.items() if job in jobs}
        return turn


def _key(item: Item) -> _Key | None:
    """None: what can't be read may be here twice."""
    return (item.shard, item.stream, item.entry_id, item.part) if isinstance(item, Event) else None
