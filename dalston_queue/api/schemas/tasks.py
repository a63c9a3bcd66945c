"""Tasks in the API: the body of POST /tasks, and a task as it is shown, with its history on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from django.utils import timezone
from ninja import Schema
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from dalston_queue.addresses import MAX_URL
from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.schemas.base import MAX_REASON, BodyIn, Instant, PriorityIn, ReasonInBody
from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.lifecycle.dag import STAGE, check_concurrency_key
from dalston_queue.jobs.lifecycle.retry import may_succeed
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.queries.progress import NO_PROGRESS, read_progress
from dalston_queue.jobs.queries.state import facts_of
from dalston_queue.jobs.queries.why import WhyCode
from dalston_queue.jobs.submit.rows import NewTask
from dalston_queue.jobs.submit.spec import JobSpec, single_task
from dalston_queue.models import Job, Task, TaskEvent
from dalston_queue.redis import get_broker

FARTHEST = timedelta(days=3660)
QUEUE = f"^{NAME.pattern}$"
Name = Annotated[str, StringConstraints(pattern=QUEUE)]
StageName = Annotated[str, StringConstraints(pattern=f"^{STAGE.pattern}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _checked_key(key: str) -> str:
    try:
        check_concurrency_key(key or " ", "this request")  # "" would be none; here that is null
    except InvalidJob as error:
        raise ValueError(str(error)) from None
    return key


# One character that is no *, or two and more without a space at an end. As an error the pattern would be unreadable.
KEY_SCHEMA: dict[str, Any] = {
    "minLength": 1,
    "maxLength": 80,
    "pattern": r"^([!-)+-~]|[!-~][ -~]*[!-~])$",
}
ConcurrencyKey = Annotated[str, AfterValidator(_checked_key), Field(json_schema_extra=KEY_SCHEMA)]
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
    priority: PriorityIn = Priority.MEDIUM
    parameters: dict[str, Any] = Field(default_factory=dict, description="What the engine gets, up to 256 KiB.")
    required_capabilities: list[Name] = Field(default_factory=list, max_length=16)
    timeout_seconds: int | None = Field(None, ge=1, le=7 * 86_400, description="Default: by priority.")
    max_retries: int | None = Field(None, ge=0, le=100, description="Default: by priority.")
    scheduled_at: Instant | None = Field(None, description="Not before this time; with its UTC offset.")
    concurrency_key: ConcurrencyKey | None = Field(
        None, description="Whose work it is, say a customer's: shares and limits count by it (docs/order.md)."
    )
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
            concurrency_key=self.concurrency_key,
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


class ErrorOut(BaseModel):
    message: str
    type: str
    retriable: bool = Field(description="Another attempt may end differently.")
    cause: str = Field(description="error, rejected, engine_lost, node_lost, timeout, gpu_oom, rate_limited, …")


class EventOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    at: datetime
    transition: str
    from_status: TaskStatus
    to_status: TaskStatus
    attempt: int
    deliveries: int
    engine_id: str
    cause: str
    message: str


class TaskOut(BaseModel):
    task_id: UUID
    job_id: UUID
    task_type: str
    stage: str = Field(description="Its name in its job.")
    queue: str
    status: TaskStatus
    priority: Priority
    effective_priority: Priority = Field(description="Rises while the task waits.")
    required_capabilities: list[str]
    concurrency_key: str | None
    parameters: dict[str, Any]
    timeout_seconds: int
    max_retries: int
    retry_count: int
    attempt: int
    deliveries: int = Field(description="Engines that died with it in this attempt.")
    assigned_worker_id: str | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None = Field(description="When it was over, well or not.")
    cancelled_at: datetime | None = Field(description="When it was cancelled; null if it was not.")
    current_state_seconds: float = Field(description="How long it has been in its status.")
    progress: float | None = Field(
        description="From 0 to 1, as its engine reports it while it runs; 1 when it is completed; else null."
    )
    idempotency_key: str | None = Field(description="Of its request; null when the key has expired.")
    result: Any = None
    error: ErrorOut | None
    trace_id: str
    queue_position: int | None = Field(
        None,
        description="Only in the answer to a submission, at most a second old; null if not known, or if the task is "
        "scheduled for later.",
    )
    estimated_wait_seconds: float | None = Field(
        None, description="Only in the answer to a submission: its position by the rate at which its queue ends tasks."
    )
    history: list[EventOut] | None = Field(None, description="Only with `include_history`.")


def task_out(task: Task, history: Iterable[TaskEvent] | None = None, job: Job | None = None) -> TaskOut:
    """From a row read with its job, or from a row and its job; with what `add_facts` read."""
    facts = getattr(task, "facts", TaskFacts())
    return TaskOut(
        task_id=task.id,
        job_id=task.job_id,
        task_type=task.task_type,
        stage=task.stage,
        queue=task.queue,
        status=TaskStatus(task.status),
        priority=Priority(task.priority),
        effective_priority=Priority(task.effective_priority),
        required_capabilities=task.required_capabilities,
        concurrency_key=task.concurrency_key or None,
        parameters=task.parameters,
        timeout_seconds=task.timeout_seconds,
        max_retries=task.max_retries,
        retry_count=task.retry_count,
        attempt=task.attempt,
        deliveries=task.deliveries,
        assigned_worker_id=task.assigned_worker_id or None,
        created_at=task.created_at,
        scheduled_at=task.scheduled_at,
        started_at=task.started_at,
        completed_at=task.finished_at,
        cancelled_at=task.finished_at if task.status == TaskStatus.CANCELLED else None,
        current_state_seconds=_seconds_since(facts.since or task.created_at),
        progress=1.0 if task.status == TaskStatus.COMPLETED else facts.progress,
        idempotency_key=facts.idempotency_key,
        result=task.result,
        error=error_out(task),
        trace_id=(job or task.job).trace_id,
        queue_position=None,
        estimated_wait_seconds=None,
        history=None if history is None else [EventOut.model_validate(event) for event in history],
    )


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is not in a task's row."""

    since: datetime | None = None  # its last transition
    idempotency_key: str | None = None
    progress: float | None = None


def add_facts(tasks: Iterable[Task]) -> None:
    """Read what `task_out` shows beside the rows of a list: one statement, and their progress."""
    tasks = list(tasks)
    of_task = facts_of(tasks) if tasks else {}
    for task in tasks:
        task.facts = TaskFacts(*of_task.get(task.id, (None, None)))  # type: ignore[attr-defined]
    add_progress(tasks)


def add_progress(tasks: Iterable[Task]) -> None:
    """Read the progress of those that run, after their facts: one read of Redis per queue."""
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    reported = (read_progress(running, get_broker()) if running else None) or {}
    for task in running:
        fraction = reported.get(task.id, NO_PROGRESS).fraction
        task.facts = replace(task.facts, progress=fraction)  # type: ignore[attr-defined]


def _seconds_since(at: datetime) -> float:
    return round(max(0.0, (timezone.now() - at).total_seconds()), 1)


def error_out(task: Task) -> ErrorOut | None:
    if not (task.error or task.error_cause):
        return None
    return ErrorOut(
        message=task.error,
        type=task.error_type,
        cause=task.error_cause,
        retriable=may_succeed(task.error_cause, task.error_retriable),
    )


def stored_task(task: NewTask, at: datetime, parameters: dict[str, Any]) -> Task:
    """The row of a task that was just stored, without a query."""
    fields = {**msgspec.structs.asdict(task), "parameters": parameters, "created_at": at}
    return Task(**fields, effective_priority=task.priority)


class CancelledTaskOut(Schema):
    task_id: UUID
    status: str = Field(
        description="`cancelled`; `queued` or `running` until its engine, or Redis, has answered; or another end, if "
        "it ended in this moment."
    )
    was_running: bool = Field(description="An engine had the task when this request came.")
    engine_notified: bool = Field(
        description="That engine was notified to stop. False although it was running: the engine is notified as soon "
        "as Redis answers, or the task has just ended."
    )


class WhyOut(Schema):
    task_id: UUID
    status: TaskStatus
    code: WhyCode
    why: str = Field(description="A sentence for people.")
    queue_position: int | None = Field(description="1 for the next one; null while no engine can claim it.")
    eta_seconds: float | None = Field(
        description="If all engines are busy: until it starts, by the rate of the last minutes. Null if not known."
    )
    until: datetime | None = Field(description="For `backoff` and `scheduled`: when it may start.")


class RequeueIn(BodyIn):
    reason: ReasonInBody = ""
    entry_id: str = Field("", max_length=64, description="The delivery that you saw; a later one is left alone.")


class DeadLetterIn(BodyIn):
    reason: str = Field(min_length=1, max_length=MAX_REASON, description="Why; becomes the error of the dead letter.")
    attempt: int | None = Field(None, ge=1, description="The attempt that you saw; a later one is left alone.")


class TaskActionOut(Schema):
    task_id: UUID
    status: str = Field(description="Of the task now. A requeued task changes a moment later.")
    changed: bool = Field(description="False: the task was in that state already, or another request came first.")
