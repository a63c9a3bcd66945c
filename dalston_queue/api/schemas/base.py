"""What the schemas share: strict request bodies, times and ids, reasons, and pages of a list by cursor.

A request body is a JSON object without unknown fields, whose numbers are numbers. By default pydantic also takes
`false` for 0, "3" for 3 and 0.5 for a time in 1970. The OpenAPI page promises otherwise, and a client that mixes up
two fields should get an error.

A cursor is the last id of a page (jobs/queries/search.py): no row is lost or repeated while new rows come in, and
page one thousand costs as much as page one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar, get_args
from uuid import UUID

from ninja import Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    model_validator,
)

from dalston_queue.broker.protocol.types import Priority


class BodyIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, data: Any) -> Any:
        """In JSON 2.0 is an integer as well."""
        if isinstance(data, dict):
            for name, value in data.items():
                if type(value) is float and value.is_integer() and cls._is_integer(name):
                    data = {**data, name: int(value)}
        return data

    @classmethod
    def _is_integer(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and (field.annotation is int or int in get_args(field.annotation))


_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _is_text(value: Any) -> Any:
    if isinstance(value, str) and not _TIME.fullmatch(value):
        raise ValueError("write a time with its UTC offset, such as 2026-11-16T09:30:00Z")
    if value is not None and not isinstance(value, str):
        raise ValueError("a time is a string, such as 2026-11-16T09:30:00Z")
    return value


def _in_utc(at: datetime) -> datetime:
    """Offsets of a day and more, and years that end where Python's do, are legal; Postgres knows neither."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return at.replace(tzinfo=UTC)


Instant = Annotated[AwareDatetime, BeforeValidator(_is_text), AfterValidator(_in_utc), Strict(False)]
"""RFC 3339; in queries, too."""
# In JSON these are strings; strict would want Python's own objects.
Id = Annotated[UUID, Strict(False)]
PriorityIn = Annotated[Priority, Strict(False)]


def either(*ways: dict[str, Any]) -> dict[str, Any]:
    """For `json_schema_extra`: exactly one of these sets of fields, each field with what it must be."""
    return {"oneOf": [_way(way) for way in ways]}


def some_of(*ways: dict[str, Any]) -> dict[str, Any]:
    """The same for at least one of these sets."""
    return {"anyOf": [_way(way) for way in ways]}


def _way(way: dict[str, Any]) -> dict[str, Any]:
    return {"properties": way, "required": [name for name in way if way[name] != ABSENT]}


ABSENT: dict[str, Any] = {"type": "null"}


MAX_REASON = 500

Reason = Annotated[str, Query(max_length=MAX_REASON, description="Why; kept in the audit trail.")]
ReasonInBody = Annotated[str, Field(max_length=MAX_REASON, description="Why; kept in the audit trail.")]


class ReasonIn(BodyIn):
    """The body of an action that needs no more than its reason."""

    reason: ReasonInBody = ""


MAX_LIMIT = 200

Out = TypeVar("Out", bound=BaseModel)

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")]
Cursor = Annotated[UUID | None, Query(description="`next_cursor` of the page before.")]
Payload = Annotated[
    str | None,
    Query(
        pattern=r"^[^.:\x00]+(\.[^.:\x00]+)*:[^\x00]*$",
        max_length=300,
        description="A field of the parameters: `user.id:42`.",
    ),
]
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class Page(BaseModel, Generic[Out]):
    items: list[Out]
    next_cursor: UUID | None = Field(description="Null on the last page.")
    total_count: int | None = Field(
        None,
        description="Of the first page: how many rows match in all; null on later pages, or if counting takes long.",
    )
    total_count_is_exact: bool | None = Field(None, description="False: at least that many, counting ends at 10 000.")
