"""The judge of dead engines and nodes, pure: dead are those whose beat counter stood still over the judge's own polls.

Only time between two successful polls counts, and at most `max_gap_s` of it, so an outage of Redis, a failover, a
paused judge or a skewed clock kills no engine: they leave a gap between the polls, not an idle engine.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Counter = TypeVar("Counter")


@dataclass(slots=True)
class _Seen(Generic[Counter]):
    counter: Counter
    idle_s: float = 0.0


@dataclass(slots=True)
class Judge(Generic[Key, Counter]):
    """Judges keys by their beat counters. Times are monotonic seconds."""

    dead_after_s: float
    max_gap_s: float  # a longer time between two polls counts as this much
    _seen: dict[Key, _Seen[Counter]] = field(default_factory=dict)
    _last_poll: float | None = None

    def observe(self, counters: Mapping[Key, Counter], now: float) -> list[Key]:
        """Record a successful poll; returns the dead keys, at each poll until they beat or are gone."""
        passed = 0.0 if self._last_poll is None else min(now - self._last_poll, self.max_gap_s)
        self._last_poll = now
        for gone in self._seen.keys() - counters.keys():
            del self._seen[gone]
        for key, counter in counters.items():
            seen = self._seen.get(key)
            if seen is None or seen.counter != counter:
                self._seen[key] = _Seen(counter)
            else:
                seen.idle_s += passed
        return [key for key, seen in self._seen.items() if seen.idle_s >= self.dead_after_s]

    def knows(self, key: Key) -> bool:
        return key in self._seen

    def idle_s(self, key: Key) -> float:
        """Seconds without a beat in our polls; 0 if the key is unknown."""
        seen = self._seen.get(key)
        return seen.idle_s if seen else 0.0
