"""/tasks/{id}/requeue and /tasks/{id}/dead-letter: what an operator does to one task that is in a stream."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Path, Router, Schema
from pydantic import Field

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.routes.tasks import visible_task
from dalston_queue.api.schemas.base import MAX_REASON, BodyIn, ReasonInBody
from dalston_queue.audit.record import audited
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.jobs.operator.dead_letter import DeadLetterOutcome
from dalston_queue.jobs.operator.dead_letter import dead_letter as dead_letter_task
from dalston_queue.jobs.operator.requeue import requeue_task
from dalston_queue.models.api_token import Scope

router = Router(tags=["tasks"])


class RequeueIn(BodyIn):
    reason: ReasonInBody = ""
    entry_id: str = Field("", max_length=64, description="The delivery that you saw; then no later one is taken.")


class DeadLetterIn(BodyIn):
    reason: str = Field(min_length=1, max_length=MAX_REASON, description="Why; it becomes the letter's error.")
    attempt: int | None = Field(None, ge=1, description="The attempt that you saw; then no later one is ended.")


class TaskActionOut(Schema):
    task_id: UUID
    status: str = Field(description="Of the task, now. What was taken from an engine changes a moment later.")
    changed: bool = Field(description="False: it was so already, or somebody else was faster.")


@router.post(
    "/tasks/{task_id}/requeue", auth=needs(Scope.OPERATE), response=answers({200: TaskActionOut}, 400, 404, 409)
)
def requeue(
    request: HttpRequest, task_id: Annotated[UUID, Path()], body: Annotated[RequeueIn, Body()]
) -> TaskActionOut:
    """Take a running task from its engine: it is next in line, and nothing is charged. The engine stops it within a
    second, and a result of it no longer counts."""
    principal = principal_of(request)
    was = visible_task(principal, task_id)
    before = {"status": was.status, "engine": was.assigned_worker_id}
    with audited("task.requeue", str(task_id), reason=body.reason, before=before, **principal.signature()) as row:
        done = requeue_task(task_id, actor=principal.name, why=body.reason, entry_id=body.entry_id)
        row.after = {"outcome": done.outcome, "status": done.status}
    if not done.found:
        raise not_found(f"task {task_id}")
    if done.outcome is Requeued.CHANGED:
        raise ApiProblem(409, Code.STATE_CONFLICT, "Another engine has the task by now; nothing was changed.")
    if done.outcome is Requeued.ABSENT:
        detail = f"The task is at no engine: it is {done.status}, or has just ended."
        raise ApiProblem(409, Code.STATE_CONFLICT, detail)
    return TaskActionOut(task_id=task_id, status="queued", changed=done.outcome is Requeued.RETURNED)


@router.post(
    "/tasks/{task_id}/dead-letter", auth=needs(Scope.OPERATE), response=answers({200: TaskActionOut}, 400, 404, 409)
)
def dead_letter(
    request: HttpRequest, task_id: Annotated[UUID, Path()], body: Annotated[DeadLetterIn, Body()]
) -> TaskActionOut:
    """Make a task that waits or runs a dead letter now (an optional one: failed), whatever budgets it has left."""
    principal = principal_of(request)
    before = {"status": visible_task(principal, task_id).status}
    with audited("task.dead_letter", str(task_id), reason=body.reason, before=before, **principal.signature()) as row:
        done = dead_letter_task(task_id, timezone.now(), actor=principal.name, why=body.reason, attempt=body.attempt)
        row.after = {"outcome": done.outcome, "status": done.status}
    if not done.found:
        raise not_found(f"task {task_id}")
    if done.outcome is DeadLetterOutcome.CHANGED:
        raise ApiProblem(409, Code.STATE_CONFLICT, "The task is at another attempt by now; nothing was changed.")
    if done.outcome is DeadLetterOutcome.NOT_QUEUED:
        detail = f"The task is {done.status}: it is not in a stream yet. Cancel it instead."
        raise ApiProblem(409, Code.STATE_CONFLICT, detail)
    if done.outcome is DeadLetterOutcome.OVER and done.status != "dead_letter":
        raise ApiProblem(409, Code.STATE_CONFLICT, f"The task is over, or about to be: it is {done.status}.")
    return TaskActionOut(task_id=task_id, status=done.status, changed=done.outcome is not DeadLetterOutcome.OVER)
