"""Fragments of the pages of alerts, and the panel of the overview."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from django.utils import timezone

from dalston_queue.alerts.table import BY_SLUG
from dalston_queue.dashboard.alerts.read import AlertLine, ended, standing
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.polling import Gone

NOTHING_STANDS = "No alert stands."
NOTHING_ENDED = "No alert has ended yet."


def alerts_fragments() -> list[Fragment]:
    return _fragments(None)


def runbook_fragments(slug: str) -> list[Fragment]:
    """Raises Gone if there is no such alert."""
    if slug not in BY_SLUG:
        raise Gone(f"there is no alert {slug}")
    return _fragments(BY_SLUG[slug].name)


def _fragments(name: str | None) -> list[Fragment]:
    return [
        as_of(timezone.now()),
        table("standing", [_alert(line) for line in standing(name)], columns=3, empty=NOTHING_STANDS),
        table("ended", [_alert(line) for line in ended(name)], columns=3, empty=NOTHING_ENDED),
    ]


@lru_cache(maxsize=512)
def _alert(line: AlertLine) -> Row:
    row_id = f"alert-{line.id}"
    return Row(row_id, render("alerts/_alert", row_id=row_id, alert=line))


PANEL_SHOWN = 8


def panel(lines: Sequence[AlertLine] | None) -> Fragment:
    """What fires, on the overview. None: Postgres does not answer."""
    firing = None if lines is None else [line for line in lines if line.state == "fires"]
    more = 0 if firing is None else max(0, len(firing) - PANEL_SHOWN)
    shown = None if firing is None else firing[:PANEL_SHOWN]
    return Fragment("alerts", render("alerts/_panel", alerts=shown, more=more))
