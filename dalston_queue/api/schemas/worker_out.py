"""What a worker is told."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from dalston_queue.api.schemas.worker_in import ResultStatus
from dalston_queue.broker.engine.remote import Hold, RemoteTask
from dalston_queue.broker.protocol.moments import moment_if
from dalston_queue.broker.protocol.types import Priority


class RegisterOut(Schema):
    worker_id: str
    heartbeat_seconds: float = Field(description="Send a heartbeat this often while the worker has tasks.")
    heartbeat_interval_ms: int = Field(description="The same in milliseconds.")
    poll_interval_ms: int = Field(description="How often a worker asks that does not let its polls wait.")
    dead_after_seconds: float = Field(description="After this long without a call its tasks are given to others.")
    max_wait_seconds: float = Field(description="The longest `wait` of a poll.")


class HoldOut(Schema):
    task_id: UUID
    attempt: int


class WorkerTaskOut(Schema):
    task_id: UUID
    attempt: int = Field(description="Send it with everything that you say about the task.")
    job_id: UUID
    task_type: str
    stage: str = Field(description="Its name in its job.")
    queue: str
    priority: Priority
    parameters: Any = None
    inputs: Any = Field(None, description="Results of the stages before it, by their names.")
    deliveries: int = Field(description="Workers and engines that died with it, in this attempt.")
    timeout_seconds: float | None
    deadline_at: datetime | None = Field(description="After this it is taken from the worker and counts as timed out.")
    trace_id: str
    given_again: bool = Field(description="The worker had it before this poll, and did not name it.")


class PollOut(Schema):
    tasks: list[WorkerTaskOut] = Field(description="Claimed and started; empty when the time was up.")
    should_drain: bool = Field(description="An operator wants it to: finish what it has, take nothing more, and leave.")
    cancelled: list[HoldOut] = Field(description="Of those named: stop them, and send the result `cancelled`.")
    lost: list[HoldOut] = Field(description="Of those named: no longer the worker's; drop them.")


class HeartbeatOut(Schema):
    acknowledged: bool = True
    should_drain: bool = Field(description="An operator wants it to: finish what it has, take nothing more, and leave.")
    cancelled: list[HoldOut] = Field(description="Of those named: stop them, and send the result `cancelled`.")
    lost: list[HoldOut] = Field(description="Of those named: no longer the worker's; drop them.")
    missing: list[HoldOut] = Field(description="The worker's, and not named: the next poll gives them again.")


class TaskStateOut(Schema):
    acknowledged: bool = True
    cancel_requested: bool = Field(description="Stop it, and send the result `cancelled`.")


class ResultOut(Schema):
    task_id: UUID
    attempt: int
    status: ResultStatus
    accepted: bool = True


class LeaveOut(Schema):
    requeued: list[HoldOut] = Field(description="What it still had: first in line for others now, and not counted.")


def holds_out(holds: list[Hold]) -> list[HoldOut]:
    return [HoldOut(task_id=UUID(hold.task_id), attempt=hold.attempt) for hold in holds]


def task_out(task: RemoteTask, *, again: bool) -> WorkerTaskOut:
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
        inputs=message.inputs,
        deliveries=message.deliveries,
        timeout_seconds=message.timeout_ms / 1000 if message.timeout_ms else None,
        deadline_at=moment_if(task.deadline_ms),
        trace_id=message.trace_id,
        given_again=again,
    )
