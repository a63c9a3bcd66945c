"""The body of POST /tasks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from django.utils import timezone
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.schemas.base import BodyIn, Instant, Priority
from dalston_queue.broker.protocol.names import NAME
from dalston_queue.broker.protocol.types import Priority as AnyPriority
from dalston_queue.jobs.lifecycle.dag import STAGE
from dalston_queue.jobs.submit.spec import JobSpec, single_task
from dalston_queue.jobs.webhooks.target import MAX_URL

FARTHEST = timedelta(days=3660)
QUEUE = f"^{NAME.pattern}$"
Name = Annotated[str, StringConstraints(pattern=QUEUE)]
StageName = Annotated[str, StringConstraints(pattern=f"^{STAGE.pattern}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
CallbackUrl = Annotated[
    str | None,
    Field(max_length=MAX_URL, description="Gets a signed request when the job is over (docs/webhooks.md)."),
]


class TaskIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"task_type": "echo", "priority": "high", "parameters": {"hello": "world"}}],
            "anyOf": [
                {"properties": {"stage": {"type": "string"}}, "required": ["stage"]},
                {"properties": {"task_type": {"type": "string", "pattern": QUEUE}}, "required": ["task_type"]},
            ],
        },
    )

    task_type: StageName | None = Field(None, description="What to do. Names the queue too, unless `stage` does.")
    stage: Name | None = Field(None, description="The queue, if it is not named like the task type.")
    priority: Priority = AnyPriority.MEDIUM
    parameters: dict[str, Any] = Field(default_factory=dict, description="What the engine gets, up to 256 KiB.")
    required_capabilities: list[Name] = Field(default_factory=list, max_length=16)
    timeout_seconds: int | None = Field(None, ge=1, le=7 * 86_400, description="Default: by priority.")
    max_retries: int | None = Field(None, ge=0, le=100, description="Default: by priority.")
    scheduled_at: Instant | None = Field(None, description="Not before this time; with its UTC offset.")
    callback_url: CallbackUrl = None
    idempotency_key: Key | None = Field(None, description="Or in the header `Idempotency-Key`.")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.task_type is None and self.stage is None:
            raise ValueError("task_type or stage is needed")
        check_time(self.scheduled_at)
        return self

    def spec(self, trace_id: str) -> JobSpec:
        return single_task(
            self.task_type or self.stage or "",
            queue=self.stage,
            priority=self.priority,
            parameters=self.parameters,
            required_capabilities=tuple(self.required_capabilities),
            timeout_seconds=self.timeout_seconds,
            max_retries=self.max_retries,
            scheduled_at=self.scheduled_at,
            trace_id=trace_id,
            callback_url=self.callback_url,
        )


def check_time(at: datetime | None) -> None:
    """An Instant is in UTC and within Python's years already. The past is now."""
    if at is not None and at > timezone.now() + FARTHEST:
        raise ValueError("scheduled_at lies more than ten years ahead")


def one_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body and in_header and in_body != in_header:
        raise ApiProblem(422, Code.INVALID, "The Idempotency-Key header and idempotency_key in the body differ.")
    return in_body or in_header
