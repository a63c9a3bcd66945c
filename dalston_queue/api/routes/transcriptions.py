"""/audio/transcriptions: submit, list, read, cancel and delete transcriptions. OpenAI's clients find them at /v1."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from ninja import Header, Path, Query, Router, Status

from dalston_queue.api.auth.backpressure import check_depth
from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import Principal, principal_of
from dalston_queue.api.errors.middleware import trace_id_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests.cancelling import cancel
from dalston_queue.api.requests.transcripts import Asked, answer_when_over, transcript_of
from dalston_queue.api.requests.uploads import StoredUpload, expect_upload, is_form, received
from dalston_queue.api.schemas.base import Cursor, Limit, Page, Reason
from dalston_queue.api.schemas.tasks import Key
from dalston_queue.api.schemas.transcriptions import (
    REQUEST_BODY,
    DeletedOut,
    OneTranscriptionOut,
    TranscriptionIn,
    TranscriptionOut,
    form_of,
    shown,
)
from dalston_queue.api.subscriptions import long_poll
from dalston_queue.api.subscriptions.long_poll import Wait
from dalston_queue.audit.record import audited
from dalston_queue.jobs.artifacts import add_upload
from dalston_queue.jobs.lifecycle.states import JOB_OVER, JobStatus, TaskStatus
from dalston_queue.jobs.operator.delete import delete_over
from dalston_queue.jobs.queries.search import page_of
from dalston_queue.jobs.queries.why import explain, facts_about
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker
from dalston_queue.transcription.state import Transcription, progress_of, with_results
from dalston_queue.transcription.wanted import NAME, Wanted, clean_name

router = Router(tags=["transcription"])
PATH = "/audio/transcriptions"


@router.post(
    PATH,
    auth=[expect_upload, *needs(Scope.SUBMIT)],
    response=answers({200: OneTranscriptionOut, 201: OneTranscriptionOut}, 400, 409, 413, 504, 507),
    openapi_extra={"requestBody": REQUEST_BODY},
)
def transcribe(
    request: HttpRequest,
    idempotency_key: Annotated[Key | None, Header(alias="Idempotency-Key")] = None,
    prefer: Annotated[
        str | None,
        Header(max_length=100, description="`wait` or `wait=60`: the answer is the transcript, in `response_format`."),
    ] = None,
) -> Any:
    """Submit a recording, as a file of a multipart form or by its address. 201 means stored: it is transcribed as soon
    as engines are free. OpenAI's client, and a request with `Prefer: wait`, get the transcript itself."""
    if not is_form(request):
        raise ApiProblem(422, Code.INVALID, "file: send a form (multipart/form-data) with `file` or `audio_url`.")
    principal = principal_of(request)
    project = principal.project()
    with received(request, principal.holder, project.pk) as (fields, file):
        form = form_of(fields)
        asked = Asked.of(request, prefer, form)
        wanted = _wanted(form, file)
        spec = wanted.job(trace_id=trace_id_of(request), callback_url=form.callback_url)
        check_depth(spec, principal)
        submission = asked.earlier(wanted, project) if idempotency_key is None else None
        if submission is None:
            artifact = file.keep() if file else None  # everything is checked by now
            with transaction.atomic():
                brings = {artifact.ref} if artifact else set()
                submission = submit(
                    spec, project=project, token=principal.token, idempotency_key=idempotency_key, brings=brings
                )
                if artifact is not None and submission.created:
                    add_upload(project.pk, submission.job_id, artifact, wanted.filename)
    if asked.waits:
        return answer_when_over(request, submission.job_id, asked, principal)
    out = _read(visible(principal, submission.job_id), principal)
    return Status(201 if submission.created else 200, out)


def _wanted(form: TranscriptionIn, file: StoredUpload | None) -> Wanted:
    if file is not None and form.audio_url:
        raise ApiProblem(422, Code.INVALID, "audio_url: send either `file` or `audio_url`, not both.")
    if file is None and not form.audio_url:
        raise ApiProblem(422, Code.INVALID, "file: send the recording as `file`, or its address as `audio_url`.")
    name = clean_name(file.name or "") if file else ""
    if file is not None and not file.size:
        raise ApiProblem(422, Code.INVALID, f"file: {name} is empty.")
    return form.wanted(file.ref if file else None, name)


@router.get(PATH, auth=needs(Scope.READ), response=answers({200: Page[TranscriptionOut]}))
def list_transcriptions(
    request: HttpRequest,
    status: Annotated[JobStatus | None, Query()] = None,
    idempotency_key: Annotated[Key | None, Query(description="The one of this key, if it is still known.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Transcriptions, newest first, without their texts."""
    rows = principal_of(request).visible(Job.objects.filter(name=NAME), "project_id")
    if status is not None:
        rows = rows.filter(status=status)
    if idempotency_key is not None:
        rows = rows.filter(idempotency_keys__key=idempotency_key, idempotency_keys__expires_at__gt=timezone.now())
    found, after = page_of(rows, limit, cursor)
    return {"items": [shown(each) for each in with_results(found)], "next_cursor": after}


@router.get(f"{PATH}/{{transcription_id}}", auth=needs(Scope.READ), response=answers({200: OneTranscriptionOut}, 404))
def read_transcription(
    request: HttpRequest, transcription_id: Annotated[UUID, Path()], wait: Wait = 0
) -> dict[str, Any]:
    """One transcription: how far it is, and its text once it is completed."""
    principal = principal_of(request)
    found = visible(principal, transcription_id)
    if wait and found.job.finished_at is None:
        long_poll.jobs.wait(transcription_id, wait, principal.holder)
        found = visible(principal, transcription_id)
    return _read(found, principal)


@router.delete(
    f"{PATH}/{{transcription_id}}",
    auth=needs(Scope.SUBMIT, Scope.OPERATE),
    response=answers({200: DeletedOut}, 404, 409),
)
def delete_transcription(
    request: HttpRequest, transcription_id: Annotated[UUID, Path()], reason: Reason = ""
) -> DeletedOut:
    """Cancel a transcription that is not over. One that is over is deleted with its text; its files follow as soon as
    no other transcription needs them."""
    principal = principal_of(request)
    job = visible(principal, transcription_id).job
    if job.status not in JOB_OVER:
        done = cancel(principal, "job", job.pk, job.status, reason=reason)
        return DeletedOut(id=job.pk, status=done.status)
    before = {"status": job.status, "filename": job.parameters.get("filename")}
    with audited("transcription.delete", str(job.pk), reason=reason, before=before, **principal.signature()) as row:
        deleted = delete_over(job.pk)
        row.after = {"deleted": deleted}
    if not deleted:  # it was replayed, or deleted by another request
        raise ApiProblem(409, Code.STATE_CONFLICT, "It changed during this request; read it again.")
    return DeletedOut(id=job.pk, status="deleted")


def visible(principal: Principal, transcription_id: UUID) -> Transcription:
    rows = Job.objects.filter(pk=transcription_id, name=NAME)
    job = principal.visible(rows, "project_id").first()
    if job is None:
        raise not_found(f"transcription {transcription_id}")
    return with_results([job])[0]


def _read(found: Transcription, principal: Principal) -> dict[str, Any]:
    job = found.job
    out = shown(found, progress=progress_of(job))
    if job.finished_at is None:
        next_one = job.tasks.filter(status__in=[TaskStatus.READY, TaskStatus.QUEUED]).order_by("id").first()
        if next_one is not None:
            facts = facts_about(next_one, get_broker(), names_others=principal.only_project is None)
            why = explain(next_one, facts, timezone.now())
            out |= {"waiting_for": f"{next_one.stage}: {why.sentence}", "estimated_wait": why.eta_seconds}
    transcript = transcript_of(found)
    if transcript is not None:
        out |= {name: transcript.get(name) for name in ("text", "segments", "word_times")}
    return out
