"""Standing and ended alerts, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dalston_queue.models import AlertState
from dalston_queue.models.alert import slug_of

SHOWN = 50
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

    @property
    def state(self) -> str:
        if self.ended_at:
            return "ended"
        return "fires" if self.fired_at else "pending"

    @property
    def tone(self) -> str:
        if self.state != "fires":
            return "wait" if self.state == "pending" else ""
        return "bad" if self.severity == "critical" else "warn"


def standing(name: str | None = None) -> tuple[AlertLine, ...]:
    """What fires, the critical first, then what is about to; of all alerts or of one."""
    rows = AlertState.objects.filter(ended_at=None, **({"name": name} if name else {})).order_by("-id")[: 4 * SHOWN]
    lines = sorted(map(_line, rows), key=lambda line: (line.state != "fires", line.severity, line.since))
    return tuple(lines[:SHOWN])


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
