"""Specs of jobs and stages, as a client asks for them; and pipelines, which make the stages in code.

Every installed app may have a module `pipelines` that registers some. It is imported at start:

    @pipeline("transcription")
    def transcription(parameters: Mapping[str, Any]) -> list[StageSpec]: ...
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage. A field that is None gets its value from the job or from the settings."""

    stage: str
    queue: str | None = None
    task_type: str | None = None
    after: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    required: bool = True
    required_capabilities: tuple[str, ...] = ()
    priority: Priority | None = None
    timeout_seconds: int | None = None
    max_retries: int | None = None
    weight: float = 1.0
    scheduled_at: datetime | None = None
    concurrency_key: str | None = None  # say, a customer: shares and limits count by it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    name: str
    stages: tuple[StageSpec, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    priority: Priority = Priority.MEDIUM
    trace_id: str | None = None
    callback_url: str | None = None  # called when the job is over
    concurrency_key: str = ""  # of the stages that name none
    ignored_by_keys: tuple[str, ...] = ()  # parameters that may differ under one idempotency key


def single_task(task_type: str, *, queue: str | None = None, **wanted: Any) -> JobSpec:
    """A job of one task: the task type names the stage and, by default, the queue. `wanted` are fields of StageSpec."""
    priority = wanted.pop("priority", None) or Priority.MEDIUM
    of_job = {name: wanted.pop(name, None) for name in ("trace_id", "callback_url")}
    stage = StageSpec(stage=task_type, queue=queue or task_type, task_type=task_type, **wanted)
    return JobSpec(name=task_type, stages=(stage,), priority=priority, **of_job)


def stage_from(wanted: object) -> StageSpec:
    """A stage from the JSON of a schedule or a result. Raises InvalidJob for a wrong type or an unknown field."""
    if isinstance(wanted, Mapping):
        known = StageSpec.__dataclass_fields__
        if unknown := [name for name in wanted if name not in known]:
            raise InvalidJob(f"a stage has no field {unknown[0]!r}; known: {', '.join(known)}")
    try:
        return msgspec.convert(wanted, StageSpec)
    except msgspec.ValidationError as error:
        raise InvalidJob(f"a stage can't be read: {error}") from None


Builder = Callable[[Mapping[str, Any]], Sequence[StageSpec]]
_builders: dict[str, Builder] = {}


def pipeline(name: str) -> Callable[[Builder], Builder]:
    """Registers a builder of stages under a name."""

    def register(builder: Builder) -> Builder:
        if name in _builders:
            raise ValueError(f"there are two pipelines named {name!r}")
        _builders[name] = builder
        return builder

    return register


def stages_of(name: str, parameters: Mapping[str, Any]) -> tuple[StageSpec, ...]:
    """The stages of a pipeline for these parameters."""
    if name not in _builders:
        known = ", ".join(sorted(_builders)) or "none"
        raise InvalidJob(f"there is no pipeline {name!r}; known: {known}")
    return tuple(_builders[name](parameters))
