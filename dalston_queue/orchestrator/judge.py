"""The judge of dead engines, pure: an engine is dead when its beat counter stood still over the judge's own polls.

Only time between two successful polls counts, and never more than one gap of it, so an outage of Redis, a failover, a
paused judge or a skewed clock kills no engine: they leave a hole in the polls, not silence in the engine.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Pulse = TypeVar("Pulse")


@dataclass(slots=True)
class _Seen(Generic[Pulse]):
    pulse: Pulse
    silent_s: float = 0.0


@dataclass(slots=True)
class Judge(Generic[Key, Pulse]):
    """Judges anything that has a pulse: engines by their counters, nodes by theirs. Times are monotonic seconds."""

    dead_after_s: float
    max_gap_s: float  # a longer time between two polls counts as this much
    _seen: dict[Key, _Seen[Pulse]] = field(default_factory=dict)
    _last_poll: float | None = None

    def observe(self, pulses: Mapping[Key, Pulse], now: float) -> list[Key]:
        """Take note of a successful poll; returns who is dead, again and again until it beats or is gone."""
        passed = 0.0 if self._last_poll is None else min(now - self._last_poll, self.max_gap_s)
        self._last_poll = now
        for gone in self._seen.keys() - pulses.keys():
            del self._seen[gone]
        for key, pulse in pulses.items():
            seen = self._seen.get(key)
            if seen is None or seen.pulse != pulse:
                self._seen[key] = _Seen(pulse)
            else:
                seen.silent_s += passed
        return [key for key, seen in self._seen.items() if seen.silent_s >= self.dead_after_s]

    def knows(self, key: Key) -> bool:
        return key in self._seen

    def silent_for(self, key: Key) -> float:
        """Seconds that it has been silent in our polls; 0 if it is unknown."""
        seen = self._seen.get(key)
        return seen.silent_s if seen else 0.0
