"""Whether a process that died is started again: yes, so that you can kill one and watch the rest; but not for ever."""

from collections import defaultdict, deque

MOST = 5
WITHIN_S = 60.0


class Restarts:
    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST))

    def allow(self, name: str, now: float) -> bool:
        """Counts this restart, if it is one: not more than so many within a minute."""
        times = self._times[name]
        if len(times) == MOST and now - times[0] < WITHIN_S:
            return False
        times.append(now)
        return True
