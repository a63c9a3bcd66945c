"""The audit trail as a file: CSV for a spreadsheet, JSON lines for a program. Each act carries its links' hashes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import StringIO
from typing import Any

from dalston_queue.models import OperatorAction
from dalston_queue.models.audit_entry import Fact

COLUMNS = (
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
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(pages: Iterable[list[OperatorAction]]) -> Iterator[str]:
    yield _lines([list(COLUMNS)])
    for page in pages:
        yield _lines([[_cell(value) for value in record(row).values()] for row in page])


def as_json_lines(pages: Iterable[list[OperatorAction]]) -> Iterator[str]:
    for page in pages:
        yield "".join(json.dumps(record(row), ensure_ascii=False) + "\n" for row in page)


def record(row: OperatorAction) -> dict[str, Any]:
    links = {entry.fact: entry for entry in row.entries.all()}
    begun, finished = links.get(Fact.BEGUN), links.get(Fact.FINISHED)
    values = (
        row.pk,
        _iso(row.at),
        _iso(row.finished_at),
        row.actor,
        row.action,
        row.target,
        row.reason,
        row.before,
        row.after,
        begun.pk if begun else None,
        begun.hash if begun else None,
        finished.pk if finished else None,
        finished.hash if finished else None,
    )
    return dict(zip(COLUMNS, values, strict=True))


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A spreadsheet runs what begins like this as a formula, whoever wrote it; an apostrophe makes it text.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _lines(rows: list[list[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
