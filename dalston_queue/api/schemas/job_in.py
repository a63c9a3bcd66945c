"""The body of POST /jobs and POST /jobs:batch: a pipeline by name, or the stages of a DAG."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.requests.body import check, check_size
from dalston_queue.api.schemas.base import ABSENT, BodyIn, Instant, Priority, either
from dalston_queue.api.schemas.task_in import CallbackUrl, Key, Name, StageName, check_time
from dalston_queue.broker.protocol.types import Priority as AnyPriority
from dalston_queue.jobs.lifecycle.dag import MAX_STAGES
from dalston_queue.jobs.submit.pipelines import stages_of
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec

MAX_BATCH = 1_000
NAMED = 3
"""So many problems of one job of a batch are told."""
Title = Annotated[str, StringConstraints(min_length=1, max_length=120)]


class StageIn(BodyIn):
    stage: StageName = Field(description="Its unique name in the job: `transcribe_ch0`.")
    queue: Name | None = Field(None, description="Default: the stage without a `_chN` ending.")
    task_type: StageName | None = Field(None, description="Default: the queue.")
    after: list[StageName] = Field(
        default_factory=list, max_length=MAX_STAGES, description="Stages that must be over first."
    )
    parameters: dict[str, Any] = Field(default_factory=dict)
    required: bool = Field(True, description="If not, its failure does not fail the job.")
    required_capabilities: list[Name] = Field(default_factory=list, max_length=16)
    priority: Priority | None = Field(None, description="Default: the job's.")
    timeout_seconds: int | None = Field(None, ge=1, le=7 * 86_400)
    max_retries: int | None = Field(None, ge=0, le=100)
    weight: float = Field(1.0, gt=0, le=1e6, description="Its share of the job's progress.")
    scheduled_at: Instant | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        check_time(self.scheduled_at)
        return self

    def spec(self) -> StageSpec:
        check_size(self.parameters)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        fields["after"], fields["required_capabilities"] = tuple(self.after), tuple(self.required_capabilities)
        return StageSpec(**fields)


class JobIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={
            **either(
                {"pipeline": ABSENT, "stages": {"type": "array", "minItems": 1}, "name": {"type": "string"}},
                {"pipeline": {"type": "string"}, "stages": {"type": "array", "maxItems": 0}},
            ),
            "examples": [{"name": "two-steps", "stages": [{"stage": "echo"}, {"stage": "sleep", "after": ["echo"]}]}],
        },
    )

    name: Title | None = Field(None, description="Default: the pipeline's name.")
    pipeline: Title | None = Field(None, description="A pipeline that this installation knows.")
    stages: list[StageIn] = Field(default_factory=list, max_length=MAX_STAGES)
    parameters: dict[str, Any] = Field(default_factory=dict, description="Of the whole job; a pipeline reads them.")
    priority: Priority = AnyPriority.MEDIUM
    callback_url: CallbackUrl = None
    idempotency_key: Key | None = None

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if (self.pipeline is None) == (not self.stages):
            raise ValueError("either pipeline or stages is needed, and not both")
        if self.pipeline is None and self.name is None:
            raise ValueError("a job of stages needs a name")
        return self

    def spec(self, trace_id: str) -> JobSpec:
        check_size(self.parameters)
        stages = (
            tuple(stage.spec() for stage in self.stages)
            if self.pipeline is None
            else stages_of(self.pipeline, self.parameters)
        )
        return JobSpec(
            name=self.name or self.pipeline or "",
            stages=stages,
            parameters=self.parameters,
            priority=self.priority,
            trace_id=trace_id,
            callback_url=self.callback_url,
        )


def _or_its_problem(job: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """One job that is not valid must not take the others of its batch with it."""
    try:
        check(job)
        return validate(job)
    except ApiProblem as problem:
        return problem
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        said = [f"{'.'.join(map(str, each['loc'])) or 'job'}: {each['msg']}" for each in found[:NAMED]]
        more = f" ({len(found) - NAMED} more)" if len(found) > NAMED else ""
        return ApiProblem(422, Code.INVALID, "; ".join(said) + more)


def _judged_alone(schema: dict[str, Any]) -> None:
    """What is no job does not make the request invalid."""
    jobs = schema["properties"]["jobs"]
    other = {"title": "Anything else", "description": "Refused for itself, in its item of the answer."}
    jobs["items"] = {"anyOf": [jobs["items"], other]}


class BatchIn(BodyIn):
    model_config = ConfigDict(json_schema_extra=_judged_alone)

    jobs: list[Annotated[JobIn, WrapValidator(_or_its_problem)]] = Field(min_length=1, max_length=MAX_BATCH)

    def each(self) -> list[JobIn | ApiProblem]:
        """In order: a job, or why it is none."""
        return [*self.jobs]
