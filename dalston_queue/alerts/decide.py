"""When an alert begins, fires and ends. Pure: from what stood, what is measured and the time, to what stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dalston_queue.alerts.table import Alert

QUIET = timedelta(seconds=60)
"""An alert ends when its condition has not held for this long: a value near the threshold must not send many mails."""
MAX_SUBJECTS = 50
"""Of one alert: clients make queues by naming them."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One alert about one subject: its condition holds, or held a moment ago."""

    subject: str
    value: float
    since: datetime  # when the condition began to hold
    held_at: datetime  # when it last held
    fired_at: datetime | None = None  # None: it has not held long enough yet


def decide(
    alert: Alert, values: Mapping[str, float] | None, before: Mapping[str, Standing], now: datetime
) -> dict[str, Standing]:
    """The standings after this evaluation, by subject; a subject of `before` that is missing has ended."""
    if values is None:  # nothing is known: what stands goes on standing
        return dict(before)
    holding = {subject: value for subject, value in values.items() if alert.holds(value)}
    worst = sorted(holding, key=lambda subject: (holding[subject] if alert.is_below else -holding[subject], subject))
    known = [subject for subject in worst if subject in before]
    after = {subject: standing for subject, standing in before.items() if _stays(standing, now)}
    room = max(0, MAX_SUBJECTS - len(after.keys() | known))
    fresh = [subject for subject in worst if subject not in before][:room]
    for subject in (*known, *fresh):
        standing = before.get(subject) or Standing(subject, holding[subject], now, now)
        held_long = (now - standing.since).total_seconds() >= alert.hold_s
        fired_at = standing.fired_at or (now if held_long else None)
        after[subject] = replace(standing, value=holding[subject], held_at=now, fired_at=fired_at)
    return after


def _stays(standing: Standing, now: datetime) -> bool:
    """Whether the alert goes on standing while its condition does not hold: it fired, and held less than QUIET ago."""
    return standing.fired_at is not None and now - standing.held_at < QUIET
