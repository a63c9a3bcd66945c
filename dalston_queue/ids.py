"""UUIDv7 ids (RFC 9562): time-ordered, so that new rows land at the right edge of every index.

Python has `uuid.uuid7` from 3.14 on. Ids made by one process only grow: the twelve bits after the milliseconds count
up, and a clock that steps back keeps the last millisecond until it catches up.
"""

import os
import threading
import time
from uuid import UUID

_COUNTER_BITS = 12


class _Stamps:
    """Milliseconds and counter as one number. A counter that overflows increments the milliseconds, which are then
    ahead of the clock by a few, never behind."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last = 0

    def next(self) -> int:
        with self.lock:
            self.last = max(self.last + 1, (time.time_ns() // 1_000_000) << _COUNTER_BITS)
            return self.last


_stamps = _Stamps()


def uuid7() -> UUID:
    """A new id, greater than every id this process made before."""
    stamp = _stamps.next()
    milliseconds, counter = stamp >> _COUNTER_BITS, stamp & 0xFFF
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | random)


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
