"""Reads the audit trail for the page, the API and the exports: CSV for a spreadsheet, JSON lines for a program.

Each exported action has the hashes of its links.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import Any

from django.db.models import QuerySet

from dalston_queue.models import OperatorAction
from dalston_queue.models.audit import Fact

KINDS = ("user", "token", "shell user")
"""Prefixes of the name in `actor`."""
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """A filter of actions, by every field that is set."""

    actor: str | None = None  # as written (`user ada`), or only the name (`ada`)
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    unfinished: bool = False


def actions(wanted: ActionFilter) -> QuerySet[OperatorAction]:
    """Actions, newest first. Each filter has its index; ids grow with time, so a page begins after an id."""
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


def actions_on(targets: list[str]) -> QuerySet[OperatorAction]:
    """Actions on these targets, newest first."""
    return OperatorAction.objects.filter(target__in=targets).order_by("-id")


def pages(wanted: ActionFilter) -> Iterator[list[OperatorAction]]:
    """Actions with their links, a page at a time: an export of any length holds one page in memory, and no cursor."""
    rows = actions(wanted).prefetch_related("entries")
    page = list(rows[:PAGE])
    while page:
        yield page
        page = list(rows.filter(pk__lt=page[-1].pk)[:PAGE]) if len(page) == PAGE else []


COLUMNS = [
    "id",
    "at",
    "finished_at",
    "actor",
    "action",
    "target",
    "reason",
    "before",
    "after",
    "begun_link",
    "begun_hash",
    "finished_link",
    "finished_hash",
]
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(pages: Iterable[list[OperatorAction]]) -> Iterator[str]:
    yield _lines([COLUMNS])
    for page in pages:
        yield _lines([[_cell(fields[name]) for name in COLUMNS] for fields in map(record, page)])


def as_json_lines(pages: Iterable[list[OperatorAction]]) -> Iterator[str]:
    for page in pages:
        yield "".join(json.dumps(record(row), ensure_ascii=False) + "\n" for row in page)


def record(row: OperatorAction) -> dict[str, Any]:
    links = {entry.fact: entry for entry in row.entries.all()}
    begun, finished = links.get(Fact.BEGUN), links.get(Fact.FINISHED)
    return {
        "id": row.pk,
        "at": row.at.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        **{name: getattr(row, name) for name in ("actor", "action", "target", "reason", "before", "after")},
        "begun_link": begun.pk if begun else None,
        "begun_hash": begun.hash if begun else None,
        "finished_link": finished.pk if finished else None,
        "finished_hash": finished.hash if finished else None,
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A spreadsheet runs what begins like this as a formula; an apostrophe makes it text.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _lines(rows: list[list[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
