"""Figures: lines over the last hour and bars, drawn by the server as SVG: no script, no inline style.

Each has a title in words for screen readers, and its numbers as text. A value of None is a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT, EDGE = 300, 72, 3
Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    values: Values  # oldest first
    tone: str = "one"  # of the style sheet: one, two, three, bad


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float


def plain(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def percent(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")


def lines(
    title: str,
    drawn: Sequence[Line],
    words: Callable[[float], str] = plain,
    *,
    top: float | None = None,
    threshold: float | None = None,
) -> SafeString:
    """Lines on one scale that begins at 0; its end is the highest value, or `top`. Empty without a value."""
    known = [value for each in drawn for value in each.values if value is not None]
    if not known:
        return SafeString("")
    highest = max(top or 0.0, *known) or 1.0
    key = '<span class="key {}">{} <strong>{}</strong></span>'
    keys = format_html_join(" ", key, ((each.tone, each.name, _now(each, words)) for each in drawn))
    mark = limit = ""
    if threshold is not None:
        limit = f"; alert above {words(threshold)}"
        if threshold <= highest:
            mark = format_html('<path class="threshold" d="M0 {}H{}"/>', _y(threshold, highest), WIDTH)
    return format_html(
        '<p class="keys">{}{}</p><svg class="lines" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none">'
        "<title>{}, the last hour: {}{}</title>{}{}</svg>"
        '<p class="ends"><span>1 h ago</span><span>highest {}</span><span>now</span></p>',
        keys,
        "" if threshold is None else format_html('<span class="quiet">alert above {}</span>', words(threshold)),
        WIDTH,
        HEIGHT,
        title,
        "; ".join(f"{each.name} {_in_words(each, words)}" for each in drawn),
        limit,
        mark,
        format_html_join("", "{}", ((_line(each, highest),) for each in drawn)),
        words(max(known)),
    )


def bars(title: str, drawn: Sequence[Bar], noun: str) -> SafeString:
    """A bar for each value; the longest is the highest value. Empty without a value."""
    highest = max((bar.value for bar in drawn), default=0)
    if not highest:
        return SafeString("")
    rows = format_html_join(
        "",
        '<li><span>{}</span><svg class="bar-line" height="10" width="100%" aria-hidden="true">'
        '<rect width="{}%" height="10" rx="3"/></svg><span class="num">{}</span></li>',
        ((bar.name, f"{100 * bar.value / highest:.4g}", plain(bar.value)) for bar in drawn),
    )
    return format_html('<ul class="bars" aria-label="{}: {}">{}</ul>', title, noun, rows)


def _now(drawn: Line, words: Callable[[float], str]) -> str:
    """The latest value that is known: of the last five minutes, or none."""
    recent = [value for value in drawn.values[-5:] if value is not None]
    return words(recent[-1]) if recent else "–"


def _in_words(drawn: Line, words: Callable[[float], str]) -> str:
    known = [value for value in drawn.values if value is not None]
    if not known:
        return "not known"
    return f"now {_now(drawn, words)}, lowest {words(min(known))}, highest {words(max(known))}"


def _line(line: Line, highest: float) -> SafeString:
    """A path with a gap for each unknown minute; a minute between two gaps is a short dash."""
    steps = max(len(line.values) - 1, 1)
    parts = []
    for is_known, group in groupby(enumerate(line.values), key=lambda item: item[1] is not None):
        if is_known:
            points = [f"{WIDTH * index / steps:.4g} {_y(value or 0.0, highest)}" for index, value in group]
            parts.append("M" + "L".join(points) + ("h1" if len(points) == 1 else ""))
    return format_html('<path class="{}" d="{}"/>', line.tone, "".join(parts))


def _y(value: float, highest: float) -> str:
    return f"{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * max(value, 0.0) / highest:.4g}"
