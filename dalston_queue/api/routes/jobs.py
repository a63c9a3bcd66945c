"""/jobs: submit, list, read and cancel jobs; send a job's webhook again."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Body, Header, Path, Query, Router, Status

from dalston_queue.api.auth.backpressure import check_depth
from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import Principal, principal_of
from dalston_queue.api.errors.middleware import trace_id_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests import body
from dalston_queue.api.requests.cancelling import cancel
from dalston_queue.api.requests.lists import AS_CSV, Format, ListFormat, page
from dalston_queue.api.schemas import jobs as schemas
from dalston_queue.api.schemas.base import Cursor, Instant, Limit, Page, Payload, Reason, Text
from dalston_queue.api.schemas.jobs import (
    BatchIn,
    BatchItem,
    BatchOut,
    CancelledJobOut,
    JobIn,
    JobOut,
    WebhookOut,
    job_out,
    job_with_tasks,
    webhook_out,
)
from dalston_queue.api.schemas.tasks import Key, one_key
from dalston_queue.api.subscriptions import long_poll
from dalston_queue.api.subscriptions.long_poll import Wait
from dalston_queue.audit.record import audited
from dalston_queue.jobs.errors import IdempotencyConflict, InvalidJob, JobsError
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.jobs.queries.search import JobSearch, find_jobs
from dalston_queue.jobs.submit.submit import Request, Submission, submit, submit_many
from dalston_queue.jobs.webhooks.deliveries import send_again
from dalston_queue.models import Job, WebhookDelivery
from dalston_queue.models.accounts import Scope
from dalston_queue.turns import let_others_pass

router = Router(tags=["jobs"])


@router.post(
    "/jobs",
    auth=needs(Scope.SUBMIT),
    response=answers({200: JobOut, 201: JobOut}, 400, 409, 413, 507),
)
def submit_job(
    request: HttpRequest,
    response: HttpResponse,
    job: Annotated[JobIn, Body()],
    idempotency_key: Annotated[Key | None, Header(alias="Idempotency-Key")] = None,
    wait: Wait = 0,
) -> Status[JobOut]:
    """Submit a job: a known pipeline, or stages that name the stages they wait for."""
    spec = job.spec(trace_id_of(request))
    principal, key = principal_of(request), one_key(job.idempotency_key, idempotency_key)
    check_depth(spec, principal)
    submission = submit(spec, project=principal.project(), token=principal.token, idempotency_key=key)
    long_poll.jobs.wait(submission.job_id, wait, principal.holder)
    response["Location"] = f"/api/v1/jobs/{submission.job_id}"
    stored = visible_job(principal, submission.job_id)
    return Status(201 if submission.created else 200, job_with_tasks(stored))


@router.post(body.BATCH_ROUTE, auth=needs(Scope.SUBMIT), response=answers({200: BatchOut}, 400, 413, 507))
def submit_batch(request: HttpRequest, batch: Annotated[BatchIn, Body()]) -> BatchOut:
    """Submit up to 1 000 jobs. Each is accepted or refused for itself; the answers are in the order of the request."""
    if "Idempotency-Key" in request.headers:  # ignored, it would let a repeated batch run twice
        detail = "A batch has no key of its own, so Idempotency-Key is refused: set the `idempotency_key` of each job."
        raise ApiProblem(422, Code.INVALID, detail)
    principal, trace_id = principal_of(request), trace_id_of(request)
    requests: list[Request | JobsError | ApiProblem] = []
    stages = 0
    for job in batch.each():
        if isinstance(job, ApiProblem):
            requests.append(job)
            continue
        let_others_pass()
        try:
            body.check_job_size(job.model_dump_json(exclude_unset=True))
            spec = job.spec(trace_id)
            if stages + len(spec.stages) > schemas.MAX_BATCH_STAGES:  # those of pipelines count, too
                raise InvalidJob(schemas.too_many_stages())
            check_depth(spec, principal)
            stages += len(spec.stages)
            requests.append(Request(spec, job.idempotency_key))
        except (JobsError, ApiProblem) as error:
            requests.append(error)
    sound = [each for each in requests if isinstance(each, Request)]
    outcomes = iter(submit_many(sound, project=principal.project(), token=principal.token))
    items = [_item(next(outcomes) if isinstance(each, Request) else each) for each in requests]
    refused = sum(item.code is not None for item in items)
    return BatchOut(accepted=len(items) - refused, refused=refused, items=items)


@router.get("/jobs", auth=needs(Scope.READ), response=answers({200: Page[JobOut]}), openapi_extra=AS_CSV)
def list_jobs(
    request: HttpRequest,
    *,
    status: Annotated[JobStatus | None, Query()] = None,
    name: Text = None,
    task_type: Text = None,
    error: Text = None,
    payload: Payload = None,
    token: Annotated[str | None, Query(min_length=1, max_length=120, description="The name of a token.")] = None,
    created_after: Annotated[Instant | None, Query()] = None,
    created_before: Annotated[Instant | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    form: Format = ListFormat.JSON,
) -> Any:
    """Jobs, newest first. `name`, `task_type` and `token` are exact; `error` finds words of a job's error."""
    wanted = JobSearch(
        status=status,
        name=name,
        task_type=task_type,
        error=error,
        payload=payload,
        token=token,
        created_after=created_after,
        created_before=created_before,
    )
    rows = find_jobs(wanted).select_related("project")
    return page(principal_of(request).visible(rows, "project_id"), job_out, limit, cursor, out=JobOut, wanted=form)


@router.get("/jobs/{job_id}", auth=needs(Scope.READ), response=answers({200: JobOut}, 404))
def read_job(request: HttpRequest, job_id: Annotated[UUID, Path()], wait: Wait = 0) -> JobOut:
    """One job with its tasks: their progress and their deliveries to engines."""
    principal = principal_of(request)
    job = visible_job(principal, job_id)
    if wait and job.finished_at is None:
        long_poll.jobs.wait(job_id, wait, principal.holder)
        job = visible_job(principal, job_id)
    return job_with_tasks(job)


@router.delete(
    "/jobs/{job_id}", auth=needs(Scope.SUBMIT, Scope.OPERATE), response=answers({200: CancelledJobOut}, 404, 409)
)
def cancel_one_job(request: HttpRequest, job_id: Annotated[UUID, Path()], reason: Reason = "") -> CancelledJobOut:
    """Cancel a job: waiting tasks end at once, engines are notified to stop running ones."""
    principal = principal_of(request)
    job = visible_job(principal, job_id)
    done = cancel(principal, "job", job_id, job.status, reason=reason)
    return CancelledJobOut(job_id=job_id, status=done.status, was_running=done.was_running, engine_notified=done.sent)


def visible_job(principal: Principal, job_id: UUID) -> Job:
    job = principal.visible(Job.objects.select_related("project").filter(pk=job_id), "project_id").first()
    if job is None:
        raise not_found(f"job {job_id}")
    return job


def _item(outcome: Submission | JobsError | ApiProblem) -> BatchItem:
    if isinstance(outcome, Submission):
        return BatchItem(job_id=outcome.job_id, task_ids=list(outcome.task_ids), created=outcome.created)
    if isinstance(outcome, ApiProblem):
        return BatchItem(code=outcome.code, detail=outcome.detail)
    conflict = isinstance(outcome, IdempotencyConflict)
    return BatchItem(code=Code.IDEMPOTENCY_CONFLICT if conflict else Code.INVALID, detail=str(outcome))


@router.post(
    "/jobs/{job_id}/webhooks/{delivery_id}/send",
    auth=needs(Scope.SUBMIT, Scope.OPERATE),
    response=answers({200: WebhookOut}, 404, 409),
)
def send_webhook_again(
    request: HttpRequest, job_id: Annotated[UUID, Path()], delivery_id: Annotated[UUID, Path()], reason: Reason = ""
) -> WebhookOut:
    """Send a webhook again now, under the same id and with all its attempts, whether it was delivered or not."""
    principal = principal_of(request)
    rows = WebhookDelivery.objects.filter(pk=delivery_id, job_id=job_id)
    row = principal.visible(rows, "job__project_id").first()
    if row is None:
        raise not_found(f"delivery {delivery_id} of job {job_id}")
    if row.is_due_afresh(timezone.now()):
        return webhook_out(row)  # it waits for a sender already: nothing to do, and nothing to put on record
    before = {"state": row.state, "attempts": row.attempts}
    target = str(delivery_id)
    with audited("webhook.send", target, reason=reason, before=before, **principal.signature()) as action:
        again = send_again(row, timezone.now())
        action.after = {"due": again}
    if not again:
        raise ApiProblem(409, Code.STATE_CONFLICT, "It is being sent right now. Read the job again in a moment.")
    row.refresh_from_db()
    return webhook_out(row)
