"""A transcript as the answer of a request: who waits for it, until when, and in which format it is written.

OpenAI's client expects the transcript in the answer to its upload, so its requests wait. After an error that may pass
it sends the upload again: that request joins the job of the first one.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dalston_queue.api.auth.bearer import check_still_valid
from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import OPENAI, ApiProblem, Code
from dalston_queue.api.schemas.transcriptions import ResponseFormat, TranscriptionIn
from dalston_queue.api.subscriptions import long_poll
from dalston_queue.api.subscriptions.waiting import WAIT_SLOTS, disconnection
from dalston_queue.artifacts import ArtifactError
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.states import JOB_OVER, JobStatus
from dalston_queue.jobs.submit.submit import Submission
from dalston_queue.models import Job, Project
from dalston_queue.transcription.document import NotATranscript
from dalston_queue.transcription.formats import FORMATS, openai_json, openai_verbose_json
from dalston_queue.transcription.state import Transcription, with_results
from dalston_queue.transcription.wanted import NAME, Wanted

_WAIT = re.compile(r"(?:^|[\s,;])wait(?:=(\d{1,6}))?(?:$|[\s,;])")
_JOINED_FOR = timedelta(hours=1)
_ROUND_S = 5.0
"""Between two checks whether the client is still there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a request wants its answer."""

    waits: bool
    seconds: float
    format: ResponseFormat
    words: bool
    segments: bool
    repeated: bool  # OpenAI's client sends it again, after an error

    @classmethod
    def of(cls, request: HttpRequest, prefer: str | None, form: TranscriptionIn) -> Self:
        preferred = _WAIT.search((prefer or "").lower())
        openai = OPENAI in request.headers
        most = float(settings.DALSTON_TRANSCRIPTION_WAIT_S)
        return cls(
            waits=openai or preferred is not None,
            seconds=min(most, float(preferred[1])) if preferred and preferred[1] else most,
            format=form.response_format,
            words=form.wants_words,
            segments=form.wants_segments,
            repeated=openai and request.headers.get("X-Stainless-Retry-Count", "0") not in ("", "0"),
        )

    def earlier(self, wanted: Wanted, project: Project) -> Submission | None:
        """The job that a repeated request joins, unless that has failed."""
        if not self.repeated:
            return None
        rows = Job.objects.filter(project=project, name=NAME, created_at__gt=timezone.now() - _JOINED_FOR)
        rows = rows.filter(status__in=[JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED])
        job = rows.filter(parameters=wanted.parameters).order_by("-pk").first()
        return None if job is None else Submission(job.pk, (), created=False)


def answer_when_over(request: HttpRequest, job_id: UUID, asked: Asked, principal: Principal) -> HttpResponse:
    """Waits, and answers with the transcript. Raises ApiProblem when it failed, or is not over in time; without a free
    slot there is no time."""
    with WAIT_SLOTS.take(principal.holder) as free, disconnection(request) as gone:
        end = time.monotonic() + (asked.seconds if free else 0.0)
        while (job := Job.objects.filter(pk=job_id).first()) is not None:
            left = end - time.monotonic()
            if job.status in JOB_OVER or left <= 0 or gone():
                break
            long_poll.jobs.wait_in_slot(job_id, min(_ROUND_S, left))
    if principal.token:
        check_still_valid(principal.token)
    if job is None:
        raise ApiProblem(404, Code.NOT_FOUND, f"The transcription {job_id} was deleted.")
    [found] = with_results([job])
    transcript = transcript_of(found)
    if transcript is None:
        raise _not_completed(found)
    answer = _written(transcript, asked)
    answer["Location"] = f"/v1/audio/transcriptions/{job_id}"
    return answer


def transcript_of(found: Transcription) -> dict[str, Any] | None:
    """None while it is not completed."""
    try:
        return found.transcript()
    except ArtifactError as error:
        raise ApiProblem(503, Code.STORE_UNAVAILABLE, f"The transcript can't be read: {error}.") from None
    except NotATranscript:
        detail = f"{found.filename} has no transcript: its file is not as the stage merge writes it."
        raise ApiProblem(409, Code.STATE_CONFLICT, detail) from None


def _written(transcript: dict[str, Any], asked: Asked) -> HttpResponse:
    if asked.format is ResponseFormat.JSON:
        return _json(openai_json(transcript))
    if asked.format is ResponseFormat.VERBOSE_JSON:
        return _json(openai_verbose_json(transcript, words=asked.words, segments=asked.segments))
    chosen = FORMATS["txt" if asked.format is ResponseFormat.TEXT else asked.format.value]
    return HttpResponse(chosen.write(transcript), content_type=chosen.content_type)


def _json(value: dict[str, Any]) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")


def _not_completed(found: Transcription) -> ApiProblem:
    job = found.job
    if job.status not in JOB_OVER:
        detail = (
            f"{found.filename} is still being transcribed. Read /v1/audio/transcriptions/{job.pk}, or send it again."
        )
        return ApiProblem(504, Code.STILL_RUNNING, detail, headers={"Retry-After": "1"})
    dont = {"X-Should-Retry": "false"}  # OpenAI's client would upload it again
    if job.status == JobStatus.CANCELLED:
        return ApiProblem(409, Code.STATE_CONFLICT, f"{found.filename}: the transcription was cancelled.", headers=dont)
    rejected = job.tasks.filter(error_cause=Cause.REJECTED, status="dead_letter").exists()
    code = (422, Code.AUDIO_REJECTED) if rejected else (500, Code.TRANSCRIPTION_FAILED)
    return ApiProblem(*code, found.error or f"{found.filename} could not be transcribed.", headers=dont)
