"""What the page of transcriptions reads, as plain values: the jobs of the pipeline `transcription`, newest first.

A job's filename is in the parameters of its stage `prepare`, the duration in that stage's result, the first words in
the result of `merge`. Peaks and words stay in Postgres and in the store: this page is read every second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from dalston_queue.dashboard.parts.request import BadQuery, uuid
from dalston_queue.dashboard.parts.words import without_directions
from dalston_queue.jobs.errors import SearchTooWide, sentence
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER, TaskStatus
from dalston_queue.jobs.queries.progress import read_progress
from dalston_queue.jobs.queries.search import page_of
from dalston_queue.models import Job, Task
from dalston_queue.redis import get_broker
from dalston_queue.transcription.document import MAX_SECONDS
from dalston_queue.transcription.state import weighted
from dalston_queue.transcription.wanted import MERGE, NAME, PREPARE, clean_name

SHOWN = 50
FIELDS = ("after",)
MAX_PROGRESS = 200
"""Running tasks whose progress is read."""
_DOING = {
    PREPARE: "reading the recording",
    "transcribe": "transcribing",
    "align": "finding the time of each word",
    MERGE: "writing the transcript",
}


@dataclass(frozen=True, slots=True)
class TranscriptionLine:
    id: str
    filename: str
    status: str
    project: str
    percent: int
    doing: str
    duration: float | None
    language: str
    model: str
    preview: str
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.status in JOB_OVER


@dataclass(frozen=True, slots=True)
class TranscriptionsView:
    at: datetime
    rows: tuple[TranscriptionLine, ...] = ()
    older: UUID | None = None  # the id after which the next page begins
    problem: str = ""


def read_transcriptions(query: Mapping[str, str]) -> TranscriptionsView:
    now = timezone.now()
    try:
        found, older = page_of(transcription_jobs(), SHOWN, uuid(query, "after"))
    except (BadQuery, SearchTooWide) as error:
        return TranscriptionsView(now, problem=sentence(error))
    return TranscriptionsView(now, tuple(described(found)), older)


def transcription_jobs() -> QuerySet[Job]:
    return Job.objects.filter(name=NAME).select_related("project").defer("parameters")


@dataclass(frozen=True, slots=True)
class Step:
    """A task of a transcription, without its content."""

    id: UUID
    queue: str
    status: str
    weight: float


def described(jobs: Sequence[Job]) -> list[TranscriptionLine]:
    ids = [job.pk for job in jobs]
    prepared = _fields(
        ids,
        PREPARE,
        filename=KeyTextTransform("filename", "parameters"),
        duration=KeyTextTransform("duration", "result"),
    )
    names = ("duration", "language", "model", "preview")
    merged = _fields(ids, MERGE, **{name: KeyTextTransform(name, "result") for name in names})
    steps = _steps([job.pk for job in jobs if job.status not in JOB_OVER])
    reported = _reported(step for each in steps.values() for step in each)
    return [
        _described(job, prepared.get(job.pk, {}), merged.get(job.pk, {}), steps.get(job.pk, []), reported)
        for job in jobs
    ]


def _fields(ids: list[UUID], stage: str, **fields: KeyTextTransform) -> dict[UUID, dict[str, Any]]:
    """These fields of this stage of each job; Postgres leaves the rest of the JSON where it is."""
    rows = Task.objects.filter(job_id__in=ids, stage=stage)
    # An alias may not be the name of a field.
    aliases = {f"its_{name}": field for name, field in fields.items()}
    found = rows.annotate(**aliases).values("job_id", *aliases)
    return {row["job_id"]: {name: row[f"its_{name}"] for name in fields} for row in found}


def _steps(ids: list[UUID]) -> dict[UUID, list[Step]]:
    found: defaultdict[UUID, list[Step]] = defaultdict(list)
    rows = Task.objects.filter(job_id__in=ids).order_by("id")
    for row in rows.only("job_id", "id", "queue", "status", "weight"):
        found[row.job_id].append(Step(row.id, row.queue, row.status, row.weight))
    return found


def _reported(steps: Iterable[Step]) -> dict[UUID, float]:
    """The share of each running task. Nothing if Redis does not answer."""
    running = [step for step in steps if step.status == TaskStatus.RUNNING][:MAX_PROGRESS]
    found = read_progress(running, get_broker()) or {}
    return {task_id: progress.fraction or 0.0 for task_id, progress in found.items()}


def _described(
    job: Job, prepared: Mapping[str, Any], merged: Mapping[str, Any], steps: list[Step], reported: Mapping[UUID, float]
) -> TranscriptionLine:
    return TranscriptionLine(
        id=str(job.pk),
        filename=clean_name(prepared.get("filename") or "recording"),
        status=job.status,
        project=job.project.name,
        percent=percent(steps, reported) if steps else round(100 * job.progress),
        doing=doing(steps) if job.status not in JOB_OVER else "",
        duration=_number(merged.get("duration") or prepared.get("duration")),
        language=merged.get("language") or "",
        model=merged.get("model") or "",
        preview=(merged.get("preview") or "")[:300],
        error=without_directions(job.error.removeprefix(f"stage {PREPARE}: "))[:500],
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def percent(steps: Sequence[Step], reported: Mapping[UUID, float]) -> int:
    """As the API has it; below 100 until the job is over."""
    shares = [(step.weight, 1.0 if step.status in TASK_OVER else reported.get(step.id, 0.0)) for step in steps]
    return min(99, int(100 * weighted(shares)))


def doing(steps: Sequence[Step]) -> str:
    """What happens now, in words: what runs, and how many of its parts are done, or what is waited for."""
    running = next((step for step in steps if step.status == TaskStatus.RUNNING), None)
    if running is not None:
        parts = [step for step in steps if step.queue == running.queue]
        over = sum(step.status in TASK_OVER for step in parts)
        of = f", {over} of {len(parts)} parts done" if len(parts) > 1 else ""
        return _DOING.get(running.queue, f"at stage {running.queue}") + of
    waiting = next((step for step in steps if step.status in {TaskStatus.READY, TaskStatus.QUEUED}), None)
    if waiting is not None:
        return f"waiting at stage {waiting.queue}"
    return "waiting to be tried again" if any(step.status == TaskStatus.SCHEDULED for step in steps) else "starting"


def _number(text: str | None) -> float | None:
    """An engine may report any JSON, also "NaN" or 1e308."""
    try:
        found = None if text is None else float(text)
    except ValueError:
        return None
    return found if found is not None and 0 <= found <= MAX_SECONDS else None
