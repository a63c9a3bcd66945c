"""/tasks: submit one task, and follow it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Body, Header, Path, Query, Router, Status

from dalston_queue.api import body, waiting
from dalston_queue.api.auth import needs
from dalston_queue.api.principal import Principal, principal_of
from dalston_queue.api.problem_out import answers
from dalston_queue.api.problems import ApiProblem, Code, not_found
from dalston_queue.api.task_in import Key, TaskIn
from dalston_queue.api.task_out import TaskOut, task_out
from dalston_queue.api.trace import trace_id_of
from dalston_queue.jobs.submit import submit
from dalston_queue.models import Task
from dalston_queue.models.api_token import Scope

router = Router(tags=["tasks"])

Wait = Annotated[float, Query(ge=0, le=waiting.MAX_WAIT_S, description="Seconds to wait for it to be over.")]


@router.post("", auth=needs(Scope.SUBMIT), response=answers({200: TaskOut, 201: TaskOut}, 400, 409, 413))
def submit_task(
    request: HttpRequest,
    response: HttpResponse,
    task: Annotated[TaskIn, Body()],
    idempotency_key: Annotated[Key | None, Header(alias="Idempotency-Key")] = None,
    wait: Wait = 0,
) -> Status[TaskOut]:
    """Submit a task: a job of one. Accepted means stored in Postgres; it runs as soon as an engine is free.

    With an idempotency key the same request can be sent again: the answer is then 200 and the task made the first time.
    """
    principal = principal_of(request)
    body.check_size(task.parameters)
    submission = submit(
        task.spec(trace_id_of(request)),
        project=principal.project(),
        token=principal.token,
        idempotency_key=_one_key(task.idempotency_key, idempotency_key),
    )
    [task_id] = submission.task_ids
    waiting.tasks.wait(task_id, wait)
    response["Location"] = f"/api/v1/tasks/{task_id}"
    return Status(201 if submission.created else 200, task_out(_visible_task(principal, task_id)))


@router.get("/{task_id}", auth=needs(Scope.READ), response=answers({200: TaskOut}, 404))
def read_task(
    request: HttpRequest,
    task_id: Annotated[UUID, Path()],
    include_history: Annotated[bool, Query(description="Every move it made, oldest first.")] = False,
    wait: Wait = 0,
) -> TaskOut:
    """One task: its state, its result or its error."""
    principal = principal_of(request)
    task = _visible_task(principal, task_id)
    if wait and task.finished_at is None:
        waiting.tasks.wait(task_id, wait)
        task = _visible_task(principal, task_id)
    return task_out(task, task.events.order_by("id") if include_history else None)


def _visible_task(principal: Principal, task_id: UUID) -> Task:
    rows = Task.objects.select_related("job").defer("job__parameters").filter(pk=task_id)
    task = principal.visible(rows, "job__project_id").first()
    if task is None:
        raise not_found(f"task {task_id}")
    return task


def _one_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body and in_header and in_body != in_header:
        raise ApiProblem(422, Code.INVALID, "The Idempotency-Key header and idempotency_key in the body differ.")
    return in_body or in_header
