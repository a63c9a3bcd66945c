"""Standing and ended alerts, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from dalston_queue.models import AlertState
from dalston_queue.models.alert import slug_of

SHOWN = 50
"""Of one alert, on its page."""
OF_EACH = 3
"""Where all alerts are: one that stands for many queues must not hide the others."""
ENDED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One time that an alert stood. It has times, not ages, so it changes only with the alert."""

    id: int
    name: str
    slug: str  # of its page
    subject: str
    severity: str
    text: str
    since: datetime
    fired_at: datetime | None
    ended_at: datetime | None
    more: int = 0  # lines of the same alert that are not shown, if this is the last that is

    @property
    def state(self) -> str:
        if self.ended_at:
            return "ended"
        return "fires" if self.fired_at else "pending"

    @property
    def tone(self) -> str:
        if self.state != "fires":
            return ""
        return "bad" if self.severity == "critical" else "warn"


def standing(name: str | None = None) -> tuple[AlertLine, ...]:
    """What fires, the critical first, then what is about to: the first of each alert, or all of one."""
    limit = SHOWN if name else OF_EACH
    rows = AlertState.objects.filter(ended_at=None, **({"name": name} if name else {}))
    first = Window(RowNumber(), partition_by="name", order_by=[F("fired_at").asc(nulls_last=True), "since", "id"])
    rows = rows.annotate(place=first, number=Window(Count("*"), partition_by="name")).filter(place__lte=limit)
    lines = [replace(_line(row), more=row.number - limit if row.place == limit else 0) for row in rows]
    return tuple(sorted(lines, key=lambda line: (line.state != "fires", line.severity, line.since, line.id)))


def ended(name: str | None = None) -> tuple[AlertLine, ...]:
    rows = AlertState.objects.filter(ended_at__isnull=False, **({"name": name} if name else {}))
    return tuple(map(_line, rows.order_by("-ended_at")[:ENDED_SHOWN]))


def _line(row: AlertState) -> AlertLine:
    return AlertLine(
        id=row.pk,
        name=row.name,
        slug=slug_of(row.name),
        subject=row.subject,
        severity=row.severity,
        text=row.text,
        since=row.since,
        fired_at=row.fired_at,
        ended_at=row.ended_at,
    )
