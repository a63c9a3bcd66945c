"""Lists: a page as JSON with the number of all rows, or as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from ninja import Query
from pydantic import BaseModel

from dalston_queue.jobs.queries.search import count_of, page_of

MEDIA_TYPE = "text/csv"
_CONTROL = ("\t", "\r", "\n")
_FORMULA = tuple("=+-@＝＋－＠")
NEXT_CURSOR = "X-Next-Cursor"
Row = TypeVar("Row", bound=Model)
Out = TypeVar("Out", bound=BaseModel)


class ListFormat(StrEnum):
    JSON = "json"
    CSV = "csv"


Format = Annotated[
    ListFormat,
    Query(
        alias="format", description="`csv`: the same rows as text/csv, the next cursor in the header `X-Next-Cursor`."
    ),
]

AS_CSV: dict[str, Any] = {
    "responses": {
        200: {
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
            "headers": {NEXT_CURSOR: {"schema": {"type": "string"}, "description": "Of CSV; absent on the last page."}},
        }
    }
}
"""For `openapi_extra` of a route with a Format."""


def page(
    rows: QuerySet[Row],
    show: Callable[[Row], Out],
    limit: int,
    cursor: UUID | None,
    *,
    out: type[BaseModel] | None = None,
    wanted: ListFormat = ListFormat.JSON,
    prepare: Callable[[Iterable[Row]], None] = lambda _: None,
) -> Any:
    """`out`: the columns of CSV. `prepare` reads what all rows of the page need, before they are shown."""
    found, after = page_of(rows, limit, cursor)
    prepare(found)
    items = [show(row) for row in found]
    if wanted is ListFormat.CSV and out is not None:
        return _as_csv(items, list(out.model_fields), after)
    total, is_exact = _total(rows, len(found), cursor, after)
    return {"items": items, "next_cursor": after, "total_count": total, "total_count_is_exact": is_exact}


def _total(rows: QuerySet[Row], found: int, cursor: UUID | None, after: UUID | None) -> tuple[int | None, bool | None]:
    """On the first page only. A page that has them all is counted already: a narrow search reads the table once."""
    if cursor is not None:
        return None, None
    return (found, True) if after is None else count_of(rows)


def _as_csv(items: Iterable[BaseModel], columns: list[str], after: UUID | None) -> HttpResponse:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for item in items:
        values = item.model_dump(mode="json")
        writer.writerow([_cell(values[name]) for name in columns])
    headers = {"Content-Disposition": 'attachment; filename="dalston.csv"', "X-Content-Type-Options": "nosniff"}
    if after is not None:
        headers[NEXT_CURSOR] = str(after)
    return HttpResponse(text.getvalue(), content_type=f"{MEDIA_TYPE}; charset=utf-8", headers=headers)


def _cell(value: Any) -> str:
    """Nested values as JSON. A text that a spreadsheet would run as a formula gets an apostrophe, as OWASP advises."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if text.startswith(_CONTROL) or text.lstrip().startswith(_FORMULA) else text
