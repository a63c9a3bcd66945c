"""Sparklines of the last hour, drawn by the server as SVG: no script, no inline style.

Each has a title for screen readers. A value of None is a gap: what was not measured is not drawn as zero.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dalston_queue.models import Sample

WIDTH, HEIGHT, EDGE = 120, 24, 2


def sparkline(values: Sequence[float | None], title: str, *, top: float | None = None, unit: str = "") -> SafeString:
    """A line over time, oldest first. `top` fixes the upper end (100 for a percentage); otherwise the largest value."""
    known = [value for value in values if value is not None]
    if not known:
        return format_html('<span class="sub" title="{}">no samples yet</span>', title)
    highest = max(top or 0.0, *known, 0.0) or 1.0
    drawn = mark_safe("".join(_stretch(part, len(values), highest) for part in _stretches(values)))  # noqa: S308  # numbers
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" preserveAspectRatio="none">'
        "<title>{}: {}</title>{}</svg>",
        WIDTH,
        HEIGHT,
        WIDTH,
        HEIGHT,
        title,
        words(values, unit),
        drawn,
    )


def words(values: Sequence[float | None], unit: str = "") -> str:
    """The chart as a sentence: its latest, lowest and highest value."""
    known = [value for value in values if value is not None]
    if not known:
        return "not known"
    last = values[-1]
    now = "not known now" if last is None else f"now {_number(last)}{unit}"
    return f"{now}, lowest {_number(min(known))}{unit}, highest {_number(max(known))}{unit}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _stretches(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Stretches of known values, each value with its index."""
    found = []
    for is_known, part in groupby(enumerate(values), key=lambda item: item[1] is not None):
        if is_known:
            found.append([(index, value) for index, value in part if value is not None])
    return found


def _stretch(part: list[tuple[int, float]], length: int, highest: float) -> str:
    points = [(_x(index, length), _y(value, highest)) for index, value in part]
    if len(points) == 1:
        [(x, y)] = points
        return f'<circle class="spark-dot" cx="{x}" cy="{y}" r="1.5"/>'
    line = " ".join(f"{x},{y}" for x, y in points)
    area = f"{points[0][0]},{HEIGHT} {line} {points[-1][0]},{HEIGHT}"
    return f'<polygon class="spark-area" points="{area}"/><polyline class="spark-line" points="{line}"/>'


def _x(index: int, length: int) -> str:
    return f"{WIDTH * index / max(length - 1, 1):.4g}"


def _y(value: float, highest: float) -> str:
    return f"{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * max(value, 0.0) / highest:.4g}"


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
        """The current minute counts once it has a sample; before, it would be a gap at the end."""
        minute = now.replace(second=0, microsecond=0)
        since = minute - timedelta(minutes=MINUTES)
        rows = Sample.objects.filter(kind=self.kind, at__gte=since, at__lte=minute)
        samples = list(rows.values_list("name", "at", "numbers"))
        last = minute if any(at == minute for _, at, _ in samples) else minute - timedelta(minutes=1)
        found: dict[str, list[Numbers | None]] = {}
        for name, at, numbers in samples:
            index = MINUTES - 1 - int((last - at).total_seconds() // 60)
            if index >= 0:
                found.setdefault(name, [None] * MINUTES)[index] = numbers
        return found


def series(samples: Sequence[Numbers | None] | None, number: str) -> list[float | None]:
    """One number of the samples over time; None for a minute without it."""
    if samples is None:
        return []
    return [None if sample is None else sample.get(number) for sample in samples]
