"""What the page of a transcription reads, as plain values: the job, its peaks, why it waits, where its words are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from dalston_queue.dashboard.job.why import why_each
from dalston_queue.dashboard.transcriptions.read import TranscriptionLine, described, transcription_jobs
from dalston_queue.jobs.lifecycle.states import JOB_OVER, TASK_OVER
from dalston_queue.models import Task
from dalston_queue.redis import get_broker
from dalston_queue.transcription.speech_models import LAST_RESORT
from dalston_queue.transcription.wanted import MERGE, PREPARE

MAX_PEAKS = 2_000


@dataclass(frozen=True, slots=True)
class TranscriptionView:
    at: datetime
    transcription: TranscriptionLine
    why: str
    """Why it is not running; empty if it is."""
    peaks: tuple[int, ...]
    transcript: str | None
    """The reference of its transcript in the artifact store, once it is completed."""
    is_last_resort: bool
    """Whether no better model was there, and none was asked for."""

    @property
    def parts(self) -> str:
        """Which of the parts that change only once are there: another value means that the page lacks one."""
        return f"{bool(self.peaks):d}{self.transcript is not None:d}"


def read_transcription(job_id: UUID) -> TranscriptionView | None:
    job = transcription_jobs().filter(pk=job_id).first()
    if job is None:
        return None
    now = timezone.now()
    [found] = described([job])
    return TranscriptionView(
        at=now,
        transcription=found,
        why="" if job.status in JOB_OVER else _why(job_id, now),
        peaks=_peaks(job_id),
        transcript=_transcript(job_id) if job.status == "completed" else None,
        is_last_resort=found.model == LAST_RESORT and job.parameters.get("model") != LAST_RESORT,
    )


def _why(job_id: UUID, now: datetime) -> str:
    """Of the first task that waits, if none runs: with one running it is not waiting for anything."""
    tasks = list(Task.objects.filter(job_id=job_id).defer("parameters", "result").order_by("id"))
    if any(task.status == "running" for task in tasks):
        return ""
    waiting = [task for task in tasks if task.status not in TASK_OVER and task.status != "pending"][:1]
    return next(iter(why_each(waiting, get_broker(), now).values()), "")


def _peaks(job_id: UUID) -> tuple[int, ...]:
    row = Task.objects.filter(job_id=job_id, stage=PREPARE).annotate(its_peaks=KeyTransform("peaks", "result"))
    return peaks_of(row.values_list("its_peaks", flat=True).first())


def peaks_of(value: Any) -> tuple[int, ...]:
    """An engine may report any JSON."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(int(peak) for peak in value[:MAX_PEAKS] if isinstance(peak, int | float))


def _transcript(job_id: UUID) -> str | None:
    row = Task.objects.filter(job_id=job_id, stage=MERGE).annotate(
        its_transcript=KeyTextTransform("transcript", "result")
    )
    return row.values_list("its_transcript", flat=True).first()
