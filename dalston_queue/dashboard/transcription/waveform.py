"""The waveform of a recording as a picture, drawn by the server as SVG. The part that was played is coloured."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

HEIGHT = 100
BAR = 0.72
"""Of the width of a column; the rest is a gap."""
LOWEST = 1.0
"""Silence is drawn, too."""


def draw(peaks: Sequence[int]) -> SafeString:
    """Peaks are from 0 to 100, evenly spread over the recording."""
    path = "".join(_bar(column, min(max(peak, LOWEST), 100)) for column, peak in enumerate(peaks))
    return format_html(
        '<svg class="wave" viewBox="0 0 {0} {1}" preserveAspectRatio="none" aria-hidden="true">'
        '<clipPath id="wave-clip"><rect id="wave-played" x="0" y="0" width="0" height="{1}"/></clipPath>'
        '<path id="wave-bars" fill="currentColor" d="{2}"/>'
        '<g class="played" clip-path="url(#wave-clip)"><use href="#wave-bars"/></g></svg>',
        len(peaks),
        HEIGHT,
        path,
    )


def _bar(column: int, peak: float) -> str:
    half = peak / 100 * (HEIGHT / 2)
    return f"M{column} {HEIGHT / 2 - half:g}h{BAR}v{2 * half:g}h-{BAR}z"
