"""Jobs in the API: the bodies of POST /jobs and POST /jobs:batch, a job as it is shown, and its webhook deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from django.db.models import Func, IntegerField, OuterRef, Subquery, TextField
from django.db.models.functions import Cast
from ninja import Schema
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.requests.body import check, check_size, decoded
from dalston_queue.api.schemas.base import ABSENT, BodyIn, Instant, PriorityIn, either
from dalston_queue.api.schemas.tasks import (
    CallbackUrl,
    ConcurrencyKey,
    Key,
    Name,
    StageName,
    TaskFacts,
    TaskOut,
    check_time,
    task_out,
)
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.lifecycle.dag import MAX_STAGES
from dalston_queue.jobs.lifecycle.states import TASK_OVER, JobStatus, TaskStatus
from dalston_queue.jobs.queries.progress import NO_PROGRESS, Progress, read_progress
from dalston_queue.jobs.queries.timeline import DeliveryOutcome, timeline_of
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, stages_of
from dalston_queue.models import IdempotencyKey, Job, Task, TaskEvent, WebhookDelivery
from dalston_queue.models.webhook import DeliveryState
from dalston_queue.redis import get_broker
from dalston_queue.turns import let_others_pass

MAX_DELIVERIES = 20


class WebhookOut(BaseModel):
    delivery_id: UUID = Field(description="The same in every attempt; the receiver gets it as `Dalston-Delivery`.")
    url: str
    status: JobStatus = Field(description="Of the job when it ended.")
    state: DeliveryState = Field(description="pending, delivered, or gave_up after the last attempt.")
    attempts: int
    next_at: datetime | None = Field(description="When it is sent next, while it is pending.")
    last_code: int | None = Field(description="The receiver's last HTTP status.")
    last_error: str | None
    delivered_at: datetime | None


def webhook_out(row: WebhookDelivery) -> WebhookOut:
    state = DeliveryState(row.state)
    return WebhookOut(
        delivery_id=row.id,
        url=row.url,
        status=JobStatus(row.status),
        state=state,
        attempts=row.attempts,
        next_at=row.next_at if state is DeliveryState.PENDING else None,
        last_code=row.last_code,
        last_error=row.last_error or None,
        delivered_at=row.delivered_at,
    )


def deliveries_of(job: Job) -> list[WebhookOut]:
    """One for each time that the job ended: a replayed job ends again."""
    return [webhook_out(row) for row in job.webhooks.order_by("-finished_at")[:MAX_DELIVERIES]]


MAX_BATCH = 1_000
MAX_BATCH_STAGES = 10_000
"""Of all jobs of a batch: its rows are stored by one statement, in about a second."""
MAX_NAMED_ERRORS = 3
"""Of one job of a batch."""
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
    priority: PriorityIn | None = Field(None, description="Default: the job's.")
    timeout_seconds: int | None = Field(None, ge=1, le=7 * 86_400)
    max_retries: int | None = Field(None, ge=0, le=100)
    weight: float = Field(1.0, gt=0, le=1e6, description="Its share of the job's progress.")
    scheduled_at: Instant | None = None
    concurrency_key: ConcurrencyKey | None = Field(None, description="Default: the job's.")

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
    priority: PriorityIn = Priority.MEDIUM
    concurrency_key: ConcurrencyKey | None = Field(
        None, description="Of the stages that name none: whose work it is, say a customer's (docs/order.md)."
    )
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
            concurrency_key=self.concurrency_key or "",
        )


def _or_its_problem(job: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """An invalid job must not refuse the other jobs of its batch."""
    if isinstance(job, ApiProblem):
        return job
    try:
        let_others_pass()
        value = decoded(job) if isinstance(job, msgspec.Raw) else job
        check(value)
        return validate(value)
    except ApiProblem as problem:
        return problem
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        named = [f"{'.'.join(map(str, each['loc'])) or 'job'}: {each['msg']}" for each in found[:MAX_NAMED_ERRORS]]
        more = f" ({len(found) - len(named)} more)" if len(found) > len(named) else ""
        return ApiProblem(422, Code.INVALID, "; ".join(named) + more)


class _Stages(msgspec.Struct):
    stages: list[msgspec.Raw] = []


def _stages_in(job: Any) -> int:
    """How many stages it names; 0 if that can't be read: then it is refused when it is checked."""
    if isinstance(job, msgspec.Raw):
        try:
            return len(msgspec.json.decode(job, type=_Stages).stages)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 0
    stages = job.get("stages") if isinstance(job, dict) else None
    return len(stages) if isinstance(stages, list) else 0


def too_many_stages() -> str:
    return f"a batch has at most {MAX_BATCH_STAGES} stages; send this job in another one"


def _items_may_be_invalid(schema: dict[str, Any]) -> None:
    """An invalid job does not make the request invalid."""
    jobs = schema["properties"]["jobs"]
    other = {"title": "Anything else", "description": "Refused on its own, in its item of the answer."}
    jobs["items"] = {"anyOf": [jobs["items"], other]}


class BatchIn(BodyIn):
    model_config = ConfigDict(json_schema_extra=_items_may_be_invalid)

    jobs: list[Annotated[JobIn, WrapValidator(_or_its_problem)]] = Field(min_length=1, max_length=MAX_BATCH)

    @field_validator("jobs", mode="before")
    @classmethod
    def _within_the_limit(cls, jobs: Any) -> Any:
        """Jobs beyond the limit of stages are refused unread: to check 1 000 of 200 stages takes seconds."""
        if not isinstance(jobs, list) or len(jobs) > MAX_BATCH:
            return jobs
        kept: list[Any] = []
        stages = 0
        for job in jobs:
            count = _stages_in(job)
            if count and stages + count > MAX_BATCH_STAGES:
                kept.append(ApiProblem(422, Code.INVALID, too_many_stages()))
            else:
                kept.append(job)
                stages += count
        return kept

    def each(self) -> list[JobIn | ApiProblem]:
        """In order: a job, or the problem with it."""
        return [*self.jobs]


MAX_EVENTS = 5_000
"""For the timeline: 200 stages with two dozen events each. Older events are left out."""
MAX_RESULTS_BYTES = 1024 * 1024
"""Of all results together: 200 tasks may have 256 KiB each, too much for each read of a job."""


class DeliveryOut(BaseModel):
    """One delivery of a task to an engine."""

    model_config = ConfigDict(from_attributes=True)

    attempt: int
    engine_id: str
    started_at: datetime | None = Field(description="Null if it ended before its start was recorded.")
    finished_at: datetime | None
    outcome: DeliveryOutcome | None = Field(description="Null while it runs.")
    cause: str
    message: str


class JobTaskOut(TaskOut):
    """A task with its edges in the DAG and its part of the job's timeline."""

    after: list[str] = Field(description="Stages that must be over first.")
    required: bool
    weight: float = Field(description="Its share of the job's progress.")
    progress: float | None = Field(description="From 0 to 1; null while it runs and its engine reports none.")
    progress_message: str
    progress_known: bool = Field(
        description="False: it runs, and Redis, which alone has its progress, does not answer."
    )
    runs: list[DeliveryOut] = Field(
        description="Every delivery to an engine, oldest first. From the newest 5 000 events of the job."
    )
    result_left_out: bool = Field(
        description="Its result is left out: an answer has at most 1 MiB of results, first stages first. Read the task."
    )


class JobOut(BaseModel):
    job_id: UUID
    name: str
    project: str
    status: JobStatus
    priority: Priority
    parameters: dict[str, Any]
    progress: float = Field(description="From 0 to 1, by the weights of the stages that are over.")
    error: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None = Field(description="When it was over, well or not.")
    trace_id: str
    callback_url: str | None
    webhooks: list[WebhookOut] | None = Field(
        None, description="Only when one job is read: the deliveries to its callback URL, newest first."
    )
    tasks: list[JobTaskOut] | None = Field(None, description="Only when one job is read, in the order of its stages.")


class BatchItem(BaseModel):
    """One job of a batch: accepted, found again under its key, or refused."""

    job_id: UUID | None = None
    task_ids: list[UUID] = Field(default_factory=list)
    created: bool = False
    code: Code | None = None
    detail: str | None = None


class BatchOut(BaseModel):
    accepted: int
    refused: int
    items: list[BatchItem] = Field(description="In the order of the request.")


def job_with_tasks(job: Job) -> JobOut:
    """The job with its timeline: three statements, and one read of Redis for each queue with a running task."""
    size = Func(Cast("result", TextField()), function="octet_length", output_field=IntegerField())
    key = Subquery(IdempotencyKey.objects.filter(job_id=OuterRef("job_id")).order_by("id").values("key")[:1])
    tasks = list(job.tasks.defer("result").annotate(result_bytes=size, key=key).order_by("id"))
    left_out = _read_results(tasks)
    events: defaultdict[UUID, list[TaskEvent]] = defaultdict(list)
    for event in reversed(TaskEvent.objects.filter(task__job_id=job.id).order_by("-id")[:MAX_EVENTS]):
        events[event.task_id].append(event)
    for task in tasks:
        moves = (event.at for event in reversed(events[task.id]) if event.from_status != event.to_status)
        task.facts = TaskFacts(next(moves, None), task.key)  # type: ignore[attr-defined]
    reported = read_progress([task for task in tasks if task.status == TaskStatus.RUNNING], get_broker())
    shown = [_task(job, task, events[task.id], reported, left_out=task.id in left_out) for task in tasks]
    return job_out(job, shown, deliveries_of(job) if job.callback_url else [])


def job_out(job: Job, tasks: list[JobTaskOut] | None = None, webhooks: list[WebhookOut] | None = None) -> JobOut:
    return JobOut(
        job_id=job.id,
        name=job.name,
        project=job.project.name,
        status=JobStatus(job.status),
        priority=Priority(job.priority),
        parameters=job.parameters,
        progress=job.progress,
        error=job.error or None,
        created_at=job.created_at,
        started_at=job.started_at,
        completed_at=job.finished_at,
        trace_id=job.trace_id,
        callback_url=job.callback_url or None,
        webhooks=webhooks,
        tasks=tasks,
    )


def _read_results(tasks: Sequence[Task]) -> set[UUID]:
    """Fill in the results of tasks up to MAX_RESULTS_BYTES. Returns the tasks whose result is left out."""
    sizes = {task.id: task.result_bytes for task in tasks if task.result_bytes is not None}  # type: ignore[attr-defined]
    room, wanted = MAX_RESULTS_BYTES, list[UUID]()
    for task_id, size in sizes.items():
        if size <= room:
            room -= size
            wanted.append(task_id)
    found = dict(Task.objects.filter(id__in=wanted).values_list("id", "result")) if wanted else {}
    for task in tasks:
        task.result = found.get(task.id)
    return sizes.keys() - found.keys()


def _task(
    job: Job, task: Task, events: list[TaskEvent], reported: dict[UUID, Progress] | None, *, left_out: bool
) -> JobTaskOut:
    report = (reported or {}).get(task.id, NO_PROGRESS)
    return JobTaskOut(
        **{**dict(task_out(task, job=job)), "progress": _share(task, report)},
        after=task.after,
        required=task.required,
        weight=task.weight,
        progress_message=report.message,
        progress_known=reported is not None or task.status != TaskStatus.RUNNING,
        runs=[DeliveryOut.model_validate(each) for each in timeline_of(events)],
        result_left_out=left_out,
    )


def _share(task: Task, reported: Progress) -> float | None:
    if task.status == TaskStatus.RUNNING:
        return reported.fraction
    return 1.0 if task.status in TASK_OVER else 0.0


class CancelledJobOut(Schema):
    job_id: UUID
    status: str = Field(
        description="`cancelled`; `cancelling` until its engines have answered; or another end, if that was decided "
        "before."
    )
    was_running: bool = Field(description="An engine had a task of the job when this request came.")
    engine_notified: bool = Field(
        description="Its engines were notified to stop. False although a task was running: they are notified as soon "
        "as Redis answers, or the task has just ended."
    )
