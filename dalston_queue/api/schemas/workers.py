"""The worker protocol: the bodies that a worker sends (registration, heartbeat, progress, result) and the answers."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

import msgspec
from ninja import Path, Query, Schema
from pydantic import ConfigDict, Field, Strict, StringConstraints, model_validator

from dalston_queue.api.schemas.base import ABSENT, BodyIn, Id, either
from dalston_queue.broker.engine.consumer import MAX_CAPACITY
from dalston_queue.broker.engine.remote import Hold, RemoteTask
from dalston_queue.broker.protocol import messages
from dalston_queue.broker.protocol.keys import NAME, WORKER_ID
from dalston_queue.broker.protocol.messages import ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EngineState, Priority
from dalston_queue.broker.protocol.validate import moment_if
from dalston_queue.jobs.artifacts import by_value
from dalston_queue.tracing import ids

DEFAULT_CAPACITY = 5
MAX_STAGES = 16
MAX_WAIT_S = 20.0
MAX_ERROR = 8_000
MAX_TRACEBACK = 32_000
LONGEST_DELAY_S = 365 * 86_400
Name = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
WorkerId = Annotated[str, Path(pattern=f"^{WORKER_ID}$")]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for a task.")]


class RegisterIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "cpu-box", "stages": ["echo"], "capacity": 2}]})

    name: Name = Field("worker", description="Its name on the dashboard; need not be unique.")
    stages: list[Name] = Field(min_length=1, max_length=MAX_STAGES, description="The queues that it serves.")
    capabilities: list[Name] = Field(default_factory=list, max_length=16, description="What it can do, such as `gpu`.")
    capacity: int = Field(DEFAULT_CAPACITY, ge=1, le=MAX_CAPACITY, description="How many tasks it runs at once.")
    version: str = Field("", max_length=60, description="Of its own program; shown.")


class HoldIn(BodyIn):
    """A task that the worker has, with the attempt of its delivery."""

    task_id: Id
    attempt: int = Field(ge=1, le=2**31 - 1)

    @property
    def hold(self) -> Hold:
        return Hold(str(self.task_id), self.attempt)


Held = Annotated[
    list[HoldIn],
    Field(max_length=MAX_CAPACITY, description="Every task that the worker has; an empty list if it has none."),
]


class PollIn(BodyIn):
    held: Held
    available_capacity: int | None = Field(
        None, ge=0, le=MAX_CAPACITY, description="How many tasks it takes now; default: as many as its capacity leaves."
    )


class WorkerStatus(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"

    @property
    def state(self) -> EngineState:
        return EngineState.READY if self is WorkerStatus.ACTIVE else EngineState.DRAINING


class HeartbeatIn(BodyIn):
    held: Held
    status: Annotated[WorkerStatus, Strict(False)] = Field(
        WorkerStatus.ACTIVE, description="`draining`: it finishes its tasks and then leaves."
    )


class ProgressIn(HoldIn):
    fraction: float = Field(ge=0, le=1, description="How much of it is done.")
    message: str = Field("", max_length=500)


class ResultStatus(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class FailureCause(StrEnum):
    ERROR = "error"
    GPU_OOM = "gpu_oom"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"


class ResultIn(HoldIn):
    model_config = ConfigDict(
        json_schema_extra={
            **either(
                {"status": {"enum": ["completed"]}, "error": ABSENT, "retriable": ABSENT},
                {"status": {"enum": ["failed"]}, "error": {"type": "string"}, "result": ABSENT},
                {"status": {"enum": ["rejected"]}, "error": {"type": "string"}, "result": ABSENT, "retriable": ABSENT},
                {"status": {"enum": ["cancelled"]}, "error": ABSENT, "result": ABSENT, "retriable": ABSENT},
            ),
            "examples": [
                {
                    "task_id": "019a2b6e-0000-7000-8000-000000000000",
                    "attempt": 1,
                    "status": "completed",
                    "result": {"text": "hello"},
                }
            ],
        },
    )

    status: Annotated[ResultStatus, Strict(False)] = Field(
        description="`failed` is tried again within the task's budget; `rejected` never is, its input is wrong; "
        "`cancelled` answers a request to stop."
    )
    result: Any = Field(None, description="Any JSON up to 256 KiB, for `completed`.")
    error: str | None = Field(None, min_length=1, max_length=MAX_ERROR, description="For `failed` and `rejected`.")
    error_type: str = Field("", max_length=200)
    traceback: str = Field("", max_length=MAX_TRACEBACK)
    cause: Annotated[FailureCause, Strict(False)] = Field(FailureCause.ERROR, description="For `failed`.")
    retriable: bool | None = Field(
        None, description="For `failed`: false if another attempt would end the same way. Default: by the cause."
    )
    retry_after_seconds: float | None = Field(
        None, ge=0, le=LONGEST_DELAY_S, description="For `failed`: when to try again; default: the retry policy's."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        fails = self.status in (ResultStatus.FAILED, ResultStatus.REJECTED)
        if fails != (self.error is not None):
            raise ValueError(f"{self.status} {'needs an error' if fails else 'takes no error'}")
        if self.retriable is not None and self.status is not ResultStatus.FAILED:
            raise ValueError(f"{self.status} takes no retriable")
        if self.result is not None and self.status is not ResultStatus.COMPLETED:
            raise ValueError(f"{self.status} takes no result")
        return self

    def outcome(self) -> messages.Outcome:
        if self.status is ResultStatus.COMPLETED:
            return messages.Completed(msgspec.Raw(msgspec.json.encode(self.result)))
        if self.status is ResultStatus.CANCELLED:
            return messages.Cancelled()
        rejected = self.status is ResultStatus.REJECTED
        return messages.Failed(
            ErrorInfo(
                message=self.error or "",
                type=self.error_type,
                cause=Cause.REJECTED if rejected else Cause(self.cause),
                retriable=self.retriable,
                retry_after_s=None if rejected else self.retry_after_seconds,
                traceback=self.traceback,
            )
        )


class RegisterOut(Schema):
    worker_id: str
    heartbeat_seconds: float = Field(description="Send a heartbeat this often while the worker has tasks.")
    heartbeat_interval_ms: int = Field(description="The same in milliseconds.")
    poll_interval_ms: int = Field(description="Between two polls of a worker whose polls do not wait.")
    dead_after_seconds: float = Field(description="After this long without a call its tasks are reclaimed.")
    max_wait_seconds: float = Field(description="The longest `wait` of a poll.")


class HoldOut(Schema):
    task_id: UUID
    attempt: int


class WorkerTaskOut(Schema):
    task_id: UUID
    attempt: int = Field(description="Send it with each report about the task.")
    job_id: UUID
    task_type: str
    stage: str = Field(description="Its name in its job.")
    queue: str
    priority: Priority
    parameters: Any = None
    inputs: Any = Field(None, description="Results of the stages before it, by their names.")
    deliveries: int = Field(description="Workers and engines that died with it in this attempt.")
    timeout_seconds: float | None
    deadline_at: datetime | None = Field(description="After this the worker loses the task, which counts as timed out.")
    trace_id: str
    traceparent: str = Field(description="Of W3C Trace Context: the parent of the worker's own spans.")
    redelivered: bool = Field(description="The worker had it before this poll and did not name it.")


class PollOut(Schema):
    tasks: list[WorkerTaskOut] = Field(description="Claimed and started; empty when the time was up.")
    should_drain: bool = Field(description="Set by an operator: finish your tasks, poll for no more, and leave.")
    cancelled: list[HoldOut] = Field(
        description="Tasks of `held` that were cancelled: stop them, and send the result `cancelled`."
    )
    lost: list[HoldOut] = Field(description="Tasks of `held` that the worker lost: drop them.")


class HeartbeatOut(Schema):
    acknowledged: bool = True
    should_drain: bool = Field(description="Set by an operator: finish your tasks, poll for no more, and leave.")
    cancelled: list[HoldOut] = Field(
        description="Tasks of `held` that were cancelled: stop them, and send the result `cancelled`."
    )
    lost: list[HoldOut] = Field(description="Tasks of `held` that the worker lost: drop them.")
    missing: list[HoldOut] = Field(description="The worker's, but not named: the next poll delivers them again.")


class TaskStateOut(Schema):
    acknowledged: bool = True
    cancel_requested: bool = Field(description="Stop it, and send the result `cancelled`.")


class ResultOut(Schema):
    task_id: UUID
    attempt: int
    status: ResultStatus
    accepted: bool = True


class LeaveOut(Schema):
    requeued: list[HoldOut] = Field(description="Tasks that it still had: released, next in their queue, uncounted.")


def holds_out(holds: list[Hold]) -> list[HoldOut]:
    return [HoldOut(task_id=UUID(hold.task_id), attempt=hold.attempt) for hold in holds]


def task_out(task: RemoteTask, worker_id: str, *, again: bool) -> WorkerTaskOut:
    message = task.message
    return WorkerTaskOut(
        task_id=UUID(message.task_id),
        attempt=message.attempt,
        job_id=UUID(message.job_id),
        task_type=message.task_type,
        stage=message.stage,
        queue=message.queue,
        priority=message.priority,
        parameters=message.parameters,
        inputs={stage: by_value(result) for stage, result in (message.inputs or {}).items()},
        deliveries=message.deliveries,
        timeout_seconds=message.timeout_ms / 1000 if message.timeout_ms else None,
        deadline_at=moment_if(task.deadline_ms),
        trace_id=message.trace_id,
        traceparent=ids.traceparent(message.trace_id, ids.wait(message.task_id, message.attempt, worker_id)),
        redelivered=again,
    )


class WorkerDrainOut(Schema):
    worker_id: str
    should_drain: bool
    changed: bool = Field(description="False: the worker was in that state before.")
