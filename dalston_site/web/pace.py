"""Pace: when each client address may have its next answer. Further requests of its connection wait in the network."""

from __future__ import annotations

from collections import OrderedDict

BURST = 20
"""Answers without a pause, of an address that asked for none lately."""
MAX_PACE_S = 1.0
"""A request waits no longer, whatever else comes from its address: behind a proxy all clients may have the same one."""
MAX_ADDRESSES = 10_000


class Pace:
    def __init__(self, every_s: float) -> None:
        """`every_s`: seconds between two answers to one address, after its first BURST."""
        self._every_s = every_s
        self._next: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, address: str, now: float) -> float:
        """Seconds that this request waits. Counts the request."""
        at = max(self._next.get(address, 0.0), now - BURST * self._every_s)
        self._next[address] = min(at + self._every_s, now + MAX_PACE_S)
        self._next.move_to_end(address)
        if len(self._next) > MAX_ADDRESSES:
            self._next.popitem(last=False)
        return max(0.0, at - now)
