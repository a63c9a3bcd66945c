"""/tasks: submit, list, read and cancel tasks; why a task is not running; requeue and dead-letter a task."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Body, Header, Path, Query, Router, Status

from dalston_queue.api.auth.backpressure import check_depth, depths
from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import Principal, principal_of
from dalston_queue.api.errors.middleware import trace_id_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests import body
from dalston_queue.api.requests.cancelling import cancel
from dalston_queue.api.requests.lists import AS_CSV, Format, ListFormat, page
from dalston_queue.api.schemas.base import Cursor, Instant, Limit, Page, Payload, Reason, Text
from dalston_queue.api.schemas.tasks import (
    CancelledTaskOut,
    DeadLetterIn,
    Key,
    RequeueIn,
    TaskActionOut,
    TaskFacts,
    TaskIn,
    TaskOut,
    WhyOut,
    add_facts,
    add_progress,
    one_key,
    stored_task,
    task_out,
)
from dalston_queue.api.subscriptions import long_poll
from dalston_queue.api.subscriptions.long_poll import Wait
from dalston_queue.audit.record import audited
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.jobs.artifacts import by_value
from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.jobs.operator.task import DeadLetterOutcome, requeue_task
from dalston_queue.jobs.operator.task import dead_letter as dead_letter_task
from dalston_queue.jobs.queries.search import created_between, with_parameter
from dalston_queue.jobs.queries.state import COLUMNS
from dalston_queue.jobs.queries.why import explain, facts_about
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, Task
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker

router = Router(tags=["tasks"])

WAITING = {TaskStatus.PENDING, TaskStatus.READY, TaskStatus.QUEUED}


@router.post(
    "/tasks",
    auth=needs(Scope.SUBMIT),
    response=answers({200: TaskOut, 201: TaskOut}, 400, 409, 413, 507),
)
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
    body.check_size(task.parameters)
    spec = task.spec(trace_id_of(request))
    principal, key = principal_of(request), one_key(task.idempotency_key, idempotency_key)
    check_depth(spec, principal)
    submission = submit(spec, project=principal.project(), token=principal.token, idempotency_key=key)
    [task_id] = submission.task_ids
    response["Location"] = f"/api/v1/tasks/{task_id}"
    if submission.at is not None and not wait:
        stored = stored_task(submission.tasks[0], submission.at, task.parameters)
        out = task_out(stored, job=Job(trace_id=trace_id_of(request)))
    else:
        long_poll.tasks.wait(task_id, wait, principal.holder)
        out = whole(task_out(visible_task(principal, task_id)))
    out.idempotency_key = key
    if out.status in WAITING and (out.scheduled_at is None or out.scheduled_at <= timezone.now()):
        out.queue_position = depths.position(out.queue, out.effective_priority)
        out.estimated_wait_seconds = depths.wait_of(out.queue, out.queue_position)
    return Status(201 if submission.created else 200, out)


@router.get("/tasks", auth=needs(Scope.READ), response=answers({200: Page[TaskOut]}), openapi_extra=AS_CSV)
def list_tasks(
    request: HttpRequest,
    *,
    status: Annotated[TaskStatus | None, Query()] = None,
    stage: Annotated[str | None, Query(min_length=1, max_length=64, description="The queue.")] = None,
    task_type: Text = None,
    error: Annotated[str | None, Query(min_length=1, max_length=200, description="Words of the error.")] = None,
    payload: Payload = None,
    created_after: Annotated[Instant | None, Query()] = None,
    created_before: Annotated[Instant | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    form: Format = ListFormat.JSON,
) -> Any:
    """Tasks, newest first."""
    wanted = {
        "status": status,
        "queue": stage,
        "task_type": task_type,
        "error__icontains": error,
    }
    rows = created_between(_rows(), created_after, created_before)
    rows = rows.filter(**{key: value for key, value in wanted.items() if value is not None})
    if payload is not None:
        rows = with_parameter(rows, payload)
    visible = principal_of(request).visible(rows, "job__project_id")
    return page(visible, task_out, limit, cursor, out=TaskOut, wanted=form, prepare=add_facts)


@router.get("/tasks/{task_id}", auth=needs(Scope.READ), response=answers({200: TaskOut}, 404))
def read_task(
    request: HttpRequest,
    task_id: Annotated[UUID, Path()],
    include_history: Annotated[bool, Query(description="Every move it made, oldest first.")] = False,
    wait: Wait = 0,
) -> TaskOut:
    """One task: its state, its result or its error."""
    principal = principal_of(request)
    task = visible_task(principal, task_id)
    if wait and task.finished_at is None:
        long_poll.tasks.wait(task_id, wait, principal.holder)
        task = visible_task(principal, task_id)
    add_progress([task])
    return whole(task_out(task, task.events.order_by("id") if include_history else None))


@router.delete(
    "/tasks/{task_id}", auth=needs(Scope.SUBMIT, Scope.OPERATE), response=answers({200: CancelledTaskOut}, 404, 409)
)
def cancel_one_task(request: HttpRequest, task_id: Annotated[UUID, Path()], reason: Reason = "") -> CancelledTaskOut:
    """Cancel a task. If its job requires the task, the whole job is cancelled."""
    principal = principal_of(request)
    task = visible_task(principal, task_id)
    done = cancel(principal, "task", task_id, task.status, reason=reason)
    return CancelledTaskOut(
        task_id=task_id, status=done.status, was_running=done.was_running, engine_notified=done.sent
    )


def whole(out: TaskOut) -> TaskOut:
    """With its result by value. Not in lists: each result may be a file of the artifact store."""
    out.result = by_value(out.result)
    return out


# The most frequent request: raw() takes a third of the time that the ORM takes to build the same statement.
_READ = f"""
    SELECT t.*, j.trace_id, {COLUMNS}
    FROM dalston_task t JOIN dalston_job j ON j.id = t.job_id
    WHERE t.id = %(task)s AND (%(project)s::uuid IS NULL OR j.project_id = %(project)s)"""  # noqa: S608 - a constant


def visible_task(principal: Principal, task_id: UUID) -> Task:
    for task in Task.objects.raw(_READ, {"task": task_id, "project": principal.only_project}):
        task.job = Job(id=task.job_id, trace_id=task.trace_id)  # type: ignore[attr-defined]
        task.facts = TaskFacts(task.since, task.key)  # type: ignore[attr-defined]
        return task
    raise not_found(f"task {task_id}")


def _rows() -> QuerySet[Task]:
    return Task.objects.select_related("job").defer("job__parameters")


@router.get("/tasks/{task_id}/why", auth=needs(Scope.READ), response=answers({200: WhyOut}, 404))
def why_not_running(request: HttpRequest, task_id: Annotated[UUID, Path()]) -> WhyOut:
    """Why is a task not running?"""
    principal = principal_of(request)
    task = visible_task(principal, task_id)
    facts = facts_about(task, get_broker(), names_others=principal.only_project is None)
    why = explain(task, facts, timezone.now())
    return WhyOut(
        task_id=task_id,
        status=TaskStatus(task.status),
        code=why.code,
        why=why.sentence,
        queue_position=why.queue_position,
        eta_seconds=None if why.eta_seconds is None else round(why.eta_seconds, 1),
        until=why.until,
    )


@router.post(
    "/tasks/{task_id}/requeue", auth=needs(Scope.OPERATE), response=answers({200: TaskActionOut}, 400, 404, 409)
)
def requeue(
    request: HttpRequest, task_id: Annotated[UUID, Path()], body: Annotated[RequeueIn, Body()]
) -> TaskActionOut:
    """Requeue a running task: it leaves its engine and is next in its queue, uncounted. The engine stops it within a
    second, and its result is refused."""
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
        detail = f"No engine has the task: it is {done.status}, or has just ended."
        raise ApiProblem(409, Code.STATE_CONFLICT, detail)
    return TaskActionOut(task_id=task_id, status="queued", changed=done.outcome is Requeued.RETURNED)


@router.post(
    "/tasks/{task_id}/dead_letter", auth=needs(Scope.OPERATE), response=answers({200: TaskActionOut}, 400, 404, 409)
)
def dead_letter(
    request: HttpRequest, task_id: Annotated[UUID, Path()], body: Annotated[DeadLetterIn, Body()]
) -> TaskActionOut:
    """Dead-letter a waiting or running task now (an optional task fails), whatever retries it has left."""
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
