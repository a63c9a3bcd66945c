"""A job's timeline as a picture: a row per stage, a bar per delivery to an engine. Drawn by the server as SVG.

All lengths are percentages of the width, so it fits any screen without a script. The end of a running delivery moves in
steps of a hundredth of the whole: a picture that differs with every tick would be sent with every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dalston_queue.dashboard.parts.words import duration, outcome_tone, outcome_words
from dalston_queue.jobs.queries.timeline import Delivery

ROW, BAR, HEAD = 38, 14, 22
STEPS = 100
MIN_WIDTH = 0.35
"""Of a bar, in per cent: a delivery that took no time is drawn, too."""

X = Callable[[datetime], float]
"""A moment's position, in per cent of the width."""


@dataclass(frozen=True, slots=True)
class Span:
    stage: str
    waits_since: datetime | None  # when it was queued first
    deliveries: tuple[Delivery, ...]


def draw(spans: Sequence[Span], start: datetime, finished: datetime | None, now: datetime) -> SafeString:
    end = finished or _stepped(start, now)
    seconds = max((end - start).total_seconds(), 0.001)

    def at(moment: datetime) -> float:
        return min(max((moment - start).total_seconds() / seconds * 100, 0.0), 100.0)

    rows = format_html_join("", "{}", ((_row(number, span, end, at),) for number, span in enumerate(spans)))
    height = HEAD + len(spans) * ROW
    marks = [(f"{percent}%", percent, anchor) for percent, anchor in ((0, "start"), (50, "middle"), (100, "end"))]
    axis = format_html_join(
        "",
        '<line x1="{0}" x2="{0}" y1="16" y2="{1}"/><text x="{0}" y="12" text-anchor="{2}">{3}</text>',
        ((x, height, anchor, duration(seconds * percent / 100) if percent else "0") for x, percent, anchor in marks),
    )
    return format_html(
        '<svg class="gantt" width="100%" height="{}" role="img" aria-labelledby="gantt-name gantt-words">'
        '<title id="gantt-name">When each stage ran</title><desc id="gantt-words">{} in all; the table of tasks says '
        'the same in words.</desc><g class="axis">{}</g>{}</svg>',
        height,
        duration(seconds),
        axis,
        rows,
    )


def _row(number: int, span: Span, end: datetime, at: X) -> SafeString:
    top = HEAD + number * ROW
    first = next((each.started_at for each in span.deliveries if each.started_at), None)
    waited = ""
    if span.waits_since is not None:
        x, until = at(span.waits_since), at(first or end)
        waited = format_html(
            '<rect class="waited" x="{}%" width="{}%" y="{}" height="4"><title>waiting</title></rect>',
            _short(x),
            _short(max(until - x, 0)),
            top + 21,
        )
    bars = format_html_join("", "{}", ((_bar(each, end, top + 16, at),) for each in span.deliveries))
    return format_html('<g><text x="0" y="{}">{}</text>{}{}</g>', top + 12, span.stage, waited, bars)


def _bar(delivery: Delivery, end: datetime, y: int, at: X) -> SafeString:
    until = delivery.finished_at or end
    since = delivery.started_at or until
    x = min(at(since), 100 - MIN_WIDTH)
    words = f"attempt {delivery.attempt} on {delivery.engine_id or 'an unknown engine'}: {outcome_words(delivery)}"
    return format_html(
        '<rect class="delivery {}" x="{}%" width="{}%" y="{}" height="{}" rx="3"><title>{}</title></rect>',
        outcome_tone(delivery),
        _short(x),
        _short(max(at(until) - x, MIN_WIDTH)),
        y,
        BAR,
        words,
    )


def _stepped(start: datetime, now: datetime) -> datetime:
    """`now`, rounded up to a round share of the time since the start."""
    passed = max((now - start).total_seconds(), 1.0)
    step = 1.0
    while step * STEPS < passed:
        step *= 2
    return start + timedelta(seconds=step * (passed // step + 1))


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
