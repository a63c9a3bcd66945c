"""What every request body has in common: a JSON object without unknown fields, whose numbers are numbers.

By itself pydantic also takes `false` for 0, "3" for 3 and 0.5 for a time in 1970. The OpenAPI page promises otherwise,
and a client that mixes up two fields should hear of it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, get_args
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Strict, model_validator

from dalston_queue.broker.protocol.types import Priority as AnyPriority


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
Priority = Annotated[AnyPriority, Strict(False)]


def either(*ways: dict[str, Any]) -> dict[str, Any]:
    """For `json_schema_extra`: exactly one of these sets of fields, each field with what it must be."""
    return {"oneOf": [{"properties": way, "required": [name for name in way if way[name] != ABSENT]} for way in ways]}


ABSENT: dict[str, Any] = {"type": "null"}
