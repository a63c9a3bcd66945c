"""UUIDv7 ids (RFC 9562): time-ordered, so that new rows land at the right edge of every index.

Python gets `uuid.uuid7` in 3.14; until then these few lines do it. Ids made by one process only grow: the twelve
bits after the milliseconds count up, and a clock that steps back keeps the last millisecond until it catches up.
"""

import os
import threading
import time
from uuid import UUID

_COUNTER_BITS = 12
_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """A new id, greater than every id this process made before."""
    global _last
    with _lock:
        # The counter is the low part of `_last`: when it overflows it carries into the milliseconds, which stay ahead
        # of the clock by a few, never behind.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << _COUNTER_BITS)
        stamp = _last
    milliseconds, counter = stamp >> _COUNTER_BITS, stamp & 0xFFF
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | random)
