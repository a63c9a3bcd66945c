"""What every list of the API shares: pages by cursor, newest first, bounded in length and in time.

A cursor is the last id of a page (jobs/queries/search.py): no page is lost or doubled while new rows come in, and
page one thousand costs as much as page one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from ninja import Query
from pydantic import BaseModel, Field

from dalston_queue.jobs.queries.search import page_of

MAX_LIMIT = 200

Row = TypeVar("Row", bound=Model)
Out = TypeVar("Out", bound=BaseModel)

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")]
Cursor = Annotated[UUID | None, Query(description="`next_cursor` of the page before.")]
Payload = Annotated[
    str | None,
    Query(pattern=r"^[^:\x00]+:[^\x00]*$", max_length=300, description="A field of the parameters: `user.id:42`."),
]
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class Page(BaseModel, Generic[Out]):
    items: list[Out]
    next_cursor: UUID | None = Field(description="Null on the last page.")


def page(rows: QuerySet[Row], show: Callable[[Row], Out], limit: int, cursor: UUID | None) -> dict[str, Any]:
    found, after = page_of(rows, limit, cursor)
    return {"items": [show(row) for row in found], "next_cursor": after}
