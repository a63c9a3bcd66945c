"""Reads the audit trail: what was done, by whom, to what, when. The same for the page, the API and the exports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from dalston_queue.models import OperatorAction

KINDS = ("user", "token", "shell user")
"""What stands before a name in `actor`."""
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Acts that match everything given."""

    actor: str | None = None  # as written (`user ada`), or only the name (`ada`)
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    unfinished: bool = False


def actions(wanted: Wanted) -> QuerySet[OperatorAction]:
    """Newest first. Each filter has its index; ids grow with time, so a page is found by the id it ends with."""
    rows = OperatorAction.objects.order_by("-id")
    if wanted.actor:
        rows = rows.filter(actor__in=[wanted.actor, *(f"{kind} {wanted.actor}" for kind in KINDS)])
    if wanted.action:
        rows = rows.filter(action=wanted.action)
    if wanted.target:
        rows = rows.filter(target=wanted.target)
    if wanted.since:
        rows = rows.filter(at__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(at__lt=wanted.until)
    if wanted.unfinished:
        rows = rows.filter(finished_at__isnull=True)
    return rows


def about(targets: list[str]) -> QuerySet[OperatorAction]:
    """What was done to these things, newest first."""
    return OperatorAction.objects.filter(target__in=targets).order_by("-id")


def pages(wanted: Wanted) -> Iterator[list[OperatorAction]]:
    """All of it with its links, a page at a time: an export of any length holds no more than one, and no cursor."""
    rows = actions(wanted).prefetch_related("entries")
    page = list(rows[:PAGE])
    while page:
        yield page
        page = list(rows.filter(pk__lt=page[-1].pk)[:PAGE]) if len(page) == PAGE else []
