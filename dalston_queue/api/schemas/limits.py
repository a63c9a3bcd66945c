"""Limits and weights in the API: the bodies of their PUTs, and both as they are shown with what is used of them."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Query, Schema
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dalston_queue.api.schemas.base import ABSENT, BodyIn, ReasonInBody, some_of
from dalston_queue.api.schemas.tasks import KEY_SCHEMA, Name
from dalston_queue.jobs.operator.limits import MAX_NUMBER, NUMBERS, LimitScope
from dalston_queue.jobs.queries.limits import COUNT_LIMIT, Usage
from dalston_queue.models.accounts import MAX_WEIGHT
from dalston_queue.models.order import EACH_KEY

ProjectName = Annotated[str, StringConstraints(pattern="^[-a-zA-Z0-9_]{1,80}$")]
KeyOrEach = Annotated[
    str, StringConstraints(min_length=1, max_length=80), Field(json_schema_extra={"pattern": "^[!-~]([ -~]*[!-~])?$"})
]
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_SCOPES: list[dict[str, Any]] = [
    {"queue": _TEXT, "concurrency_key": ABSENT},
    {"project": _TEXT, "concurrency_key": ABSENT},
    {"project": _TEXT, "concurrency_key": KEY_SCHEMA},
]
_EACH_KEY: dict[str, Any] = {
    "project": _TEXT,
    "concurrency_key": {"const": EACH_KEY},
    "max_in_flight": _NUMBER,
    "starts_per_minute": ABSENT,
}
_WAYS = [*({**scope, number: _NUMBER} for scope in _SCOPES for number in NUMBERS), _EACH_KEY]


class LimitIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"queue": "transcribe", "project": "acme", "concurrency_key": "*", "max_in_flight": 3},
                {"queue": "transcribe", "starts_per_minute": 60, "reason": "the licence allows no more"},
            ],
            **some_of(*_WAYS),
        }
    )

    queue: Name | None = Field(None, description="Null: all queues together.")
    project: ProjectName | None = Field(None, description="Null: all projects together.")
    concurrency_key: KeyOrEach | None = Field(None, description="Of the project; `*`: each of its keys for itself.")

    max_in_flight: int | None = Field(
        None, ge=0, le=MAX_NUMBER, description="Tasks that are queued or running; 0 starts none. Null: no such limit."
    )
    starts_per_minute: int | None = Field(
        None, ge=1, le=MAX_NUMBER, description="Never more in any 60 s. Null: no such limit. Not for each key (`*`)."
    )
    reason: ReasonInBody = ""

    def scope(self) -> LimitScope:
        return LimitScope(
            queue=self.queue or "", project=self.project or "", concurrency_key=self.concurrency_key or ""
        )


class LimitOut(BaseModel):
    limit_id: int
    queue: str | None
    project: str | None
    concurrency_key: str | None
    max_in_flight: int | None
    starts_per_minute: int | None
    in_flight: int = Field(description="Queued or running now; for each key (`*`): of the key that has the most.")
    waiting: int = Field(
        description=f"Ready tasks that it applies to. Of a project or key at most {COUNT_LIMIT} are counted in each "
        "tier of a lane."
    )
    fullest_key: str | None = Field(description="For each key (`*`): the key that has the most in flight.")
    keys_at_limit: int | None = Field(description="For each key (`*`): how many have all that they may have.")
    next_start_seconds: float | None = Field(description="Until it allows a start; null without `starts_per_minute`.")


class LimitSetOut(LimitOut):
    changed: bool = Field(description="False: it was like this before.")


class LimitPage(Schema):
    items: list[LimitOut]
    next_cursor: int | None = Field(description="Null on the last page.")


class LimitRemovedOut(Schema):
    limit_id: int
    scope: str = Field(description="What it was of, in words.")


class WeightIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"weight": 3, "reason": "they pay for three shares"}]})

    weight: int = Field(ge=1, le=MAX_WEIGHT, description="3 gets three times as many slots as 1 while both wait.")
    reason: ReasonInBody = ""


class WeightOut(Schema):
    project: str
    weight: int
    in_flight: int = Field(description="Its tasks that are queued or running.")
    all_in_flight: int = Field(description="Those of all projects.")


class WeightSetOut(WeightOut):
    changed: bool = Field(description="False: it had this weight before.")


QueueWord = Annotated[Name | None, Query(description="Only limits that name this queue.")]
ProjectWord = Annotated[ProjectName | None, Query(description="Only limits that name this project.")]


def limit_fields(usage: Usage) -> dict[str, Any]:
    limit, is_each = usage.limit, usage.limit.is_of_each_key
    return {
        "limit_id": limit.pk,
        "queue": limit.queue or None,
        "project": limit.project.name if limit.project else None,
        "concurrency_key": limit.concurrency_key or None,
        "max_in_flight": limit.max_in_flight,
        "starts_per_minute": limit.starts_per_minute,
        "in_flight": usage.in_flight,
        "waiting": usage.waiting,
        "fullest_key": (usage.fullest_key or None) if is_each else None,
        "keys_at_limit": usage.keys_at_limit if is_each else None,
        "next_start_seconds": None if usage.next_start_s is None else round(usage.next_start_s, 3),
    }
