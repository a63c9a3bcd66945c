"""What every list of the API shares: pages by cursor, newest first, bounded in length and in time.

Ids are time-ordered, so a cursor is the last id of a page: no page is lost or doubled while new rows come in, and page
one thousand costs as much as page one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import Model, QuerySet
from ninja import Query
from pydantic import BaseModel, Field

from dalston_queue.api.problems import ApiProblem, Code

MAX_LIMIT = 200
SEARCH_MS = 5_000

Row = TypeVar("Row", bound=Model)
Out = TypeVar("Out", bound=BaseModel)

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")]
Cursor = Annotated[UUID | None, Query(description="`next_cursor` of the page before.")]
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class Page(BaseModel, Generic[Out]):
    items: list[Out]
    next_cursor: UUID | None = Field(description="Null on the last page.")


def page(rows: QuerySet[Row], show: Callable[[Row], Out], limit: int, cursor: UUID | None) -> dict[str, Any]:
    if cursor is not None:
        rows = rows.filter(pk__lt=cursor)
    found = _bounded(rows.order_by("-pk")[: limit + 1])
    more = len(found) > limit
    return {"items": [show(row) for row in found[:limit]], "next_cursor": found[limit - 1].pk if more else None}


def _bounded(rows: QuerySet[Row]) -> list[Row]:
    """A search that finds little in a long history would read all of it: it is stopped and says so."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(SEARCH_MS)])
            return list(rows)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == "57014":
            raise ApiProblem(
                422,
                Code.SEARCH_TOO_WIDE,
                f"The search took more than {SEARCH_MS // 1000} s. Narrow it: name a status, a type or a time.",
            ) from None
        raise
