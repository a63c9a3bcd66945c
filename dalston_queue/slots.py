"""Slots that many share: a semaphore with a share for each holder, so that no project takes the last one. A leaf."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


def has_room(own: int, taken: int, limit: int) -> bool:
    """Whether a holder may take one more slot: while fewer are its own than are free. So the first holder gets at most
    half of them, the next half of the rest, and there is always one for a holder that has none. Pure."""
    return own < limit - taken


class Slots:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, holder: str | None = None, wait_s: float = 0) -> Iterator[bool]:
        """False: no slot is free, or the holder has its share, also after `wait_s`. Without a holder the first that
        comes gets the slot."""
        taken = self._acquire(holder, wait_s)
        try:
            yield taken
        finally:
            if taken:
                self._release(holder)

    def _acquire(self, holder: str | None, wait_s: float) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(holder), wait_s):
                return False
            self._taken[holder or ""] += 1
            return True

    def _is_free(self, holder: str | None) -> bool:
        own = 0 if holder is None else self._taken[holder]
        return has_room(own, self._taken.total(), self.limit)

    def _release(self, holder: str | None) -> None:
        with self._changed:
            self._taken[holder or ""] -= 1
            self._taken += Counter()  # drops those with none
            self._changed.notify_all()
