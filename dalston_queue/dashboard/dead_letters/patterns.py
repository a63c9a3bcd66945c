"""Patterns on the page of dead letters: what those of the last day have in common, each with its filter and replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dalston_queue.alerts.table import BY_NAME
from dalston_queue.dashboard.live.fragments import Fragment, render
from dalston_queue.dashboard.parts.request import address
from dalston_queue.dashboard.parts.words import count
from dalston_queue.jobs.queries.dead_letters import EXAMINED, InHour, Pattern, Patterns

TITLES = {"cause": "Cause", "queue": "Queue", "node": "Node", "engine": "Engine", "project": "Project"}


@dataclass(frozen=True, slots=True)
class _Block:
    title: str
    rows: tuple[dict[str, Any], ...]


def patterns_fragment(found: Patterns | None, query: Mapping[str, str], may_operate: bool) -> Fragment:
    """`query`: the filter of the page, within which a click filters further. None: not read, as for a list."""
    within = {name: value for name, value in query.items() if name not in ("each", "after")}
    return Fragment(
        "patterns",
        render(
            "dead_letters/_patterns",
            found=found,
            blocks=tuple(_blocks(found, within)) if found else (),
            hours=hour_bars(found.hours, within) if found else "",
            retriable=address(within, retriable="yes"),
            warnings=tuple(_warnings(found)) if found else (),
            examined=EXAMINED,
            filtered=bool(within),
            may_operate=may_operate,
        ),
    )


def _blocks(found: Patterns, within: Mapping[str, str]) -> Iterator[_Block]:
    for kind, title in TITLES.items():
        if found.by[kind]:
            yield _Block(title, tuple(_row(each, within) for each in found.by[kind]))


def _row(each: Pattern, within: Mapping[str, str]) -> dict[str, Any]:
    passing = "all may pass" if each.retriable == each.count else f"{each.retriable or 'none'} may pass"
    return {"pattern": each, "link": address(within, **{each.kind: each.value}), "passing": passing}


def _warnings(found: Patterns) -> Iterator[tuple[str, str]]:
    """A sentence and the page of its alert, for each threshold that is exceeded."""
    of_cause, retriable = BY_NAME["DalstonDeadLettersOfOneCause"], BY_NAME["DalstonDeadLettersRetriable"]
    for each in found.by["cause"]:
        if each.is_many:
            yield f"{each.count} have the cause {each.value}: more than {of_cause.limit:g}.", of_cause.slug
    if found.are_many_retriable:
        yield f"{found.retriable} may pass if they are replayed: more than {retriable.limit:g}.", retriable.slug


HEIGHT, BAR = 64, 100 / 25


def hour_bars(hours: tuple[InHour, ...], within: Mapping[str, str]) -> SafeString:
    """A bar for each hour, which filters by that hour. Lengths are shares of the width, so it fits any screen."""
    highest = max((hour.count for hour in hours), default=0) or 1
    bars = format_html_join("", "{}", ((_bar(index, hour, highest, within),) for index, hour in enumerate(hours)))
    return format_html(
        '<svg class="hours" width="100%" height="{}" role="group" aria-label="By hour, at most {} in one">{}</svg>',
        HEIGHT,
        highest,
        bars,
    )


def _bar(index: int, hour: InHour, highest: int, within: Mapping[str, str]) -> SafeString:
    x = f"{BAR * index:g}"
    if not hour.count:
        return format_html('<rect class="none" x="{}%" y="{}" width="3.2%" height="1"/>', x, HEIGHT - 1)
    tall = max(2, round((HEIGHT - 4) * hour.count / highest))
    end = hour.at + timedelta(hours=1)
    link = address(within, since=hour.at.strftime("%Y-%m-%dT%H:%M"), until=end.strftime("%Y-%m-%dT%H:%M"))
    title = f"{hour.at:%H:%M} to {end:%H:%M} UTC: {count(hour.count, 'dead letter')}, {hour.retriable} may pass"
    return format_html(
        '<a href="{}" aria-label="{}"><title>{}</title><rect x="{}%" y="{}" width="3.2%" height="{}"/></a>',
        link,
        title,
        title,
        x,
        HEIGHT - tall,
        tall,
    )
