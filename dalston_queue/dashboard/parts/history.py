"""The last hour of samples, minute by minute, for the sparklines. Read again every few seconds, not each tick."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from dalston_queue.models import Sample

MINUTES = 60
FRESH_S = 10.0
Numbers = Mapping[str, float]


class History:
    """All samples of one kind of the last hour, by name. Shared by the viewers of a process."""

    def __init__(self, kind: str, fresh_s: float = FRESH_S) -> None:
        self.kind = kind
        self.fresh_s = fresh_s
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._found: dict[str, list[Numbers | None]] = {}

    def get(self) -> dict[str, list[Numbers | None]]:
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at > self.fresh_s:
                self._found = self._read(timezone.now())
                self._read_at = time.monotonic()
            return self._found

    def _read(self, now: datetime) -> dict[str, list[Numbers | None]]:
        """The minute that is running counts once its sample is there; before, it would be a gap at the end."""
        minute = now.replace(second=0, microsecond=0)
        since = minute - timedelta(minutes=MINUTES)
        rows = Sample.objects.filter(kind=self.kind, at__gte=since, at__lte=minute)
        samples = list(rows.values_list("name", "at", "numbers"))
        last = minute if any(at == minute for _, at, _ in samples) else minute - timedelta(minutes=1)
        found: dict[str, list[Numbers | None]] = {}
        for name, at, numbers in samples:
            place = MINUTES - 1 - int((last - at).total_seconds() // 60)
            if place >= 0:
                found.setdefault(name, [None] * MINUTES)[place] = numbers
        return found


def series(samples: Sequence[Numbers | None] | None, number: str) -> list[float | None]:
    """One number of them over time; a minute without it is None."""
    if samples is None:
        return []
    return [None if sample is None else sample.get(number) for sample in samples]
