"""A transcription as its job and tasks show it: progress, what is known of the audio, the transcript, the error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dalston_queue.artifacts import is_reference
from dalston_queue.jobs.artifacts import needs, the_store
from dalston_queue.jobs.lifecycle.states import TASK_OVER, JobStatus, TaskStatus
from dalston_queue.jobs.queries.progress import NO_PROGRESS, read_progress
from dalston_queue.models import Job, Task
from dalston_queue.redis import get_broker
from dalston_queue.transcription import document
from dalston_queue.transcription.wanted import MERGE, PREPARE, clean_name

PREPARED = 0.05
"""The share of `prepare` in the progress while the other stages are not known."""


@dataclass(frozen=True, slots=True)
class Transcription:
    """One job, with the results of its first and its last stage."""

    job: Job
    prepared: dict[str, Any]
    merged: dict[str, Any]

    @property
    def filename(self) -> str:
        return clean_name(str(self.job.parameters.get("filename") or ""))  # of any job that has the name

    @property
    def duration(self) -> float | None:
        found = self.prepared.get("duration")
        return float(found) if isinstance(found, int | float) else None

    @property
    def model(self) -> str:
        """What was used, once that is known; before, what was asked for."""
        return str(self.merged.get("model") or self.job.parameters.get("model") or "auto")

    @property
    def language(self) -> str | None:
        found = self.merged.get("language") or self.job.parameters.get("language")
        return str(found) if found else None

    @property
    def error(self) -> str | None:
        """A sentence that names the file."""
        if not self.job.error:
            return None
        return self.job.error if self.filename in self.job.error else f"{self.filename}: {self.job.error}"

    @property
    def audio(self) -> str | None:
        """The recording, if it is in the store: as it was uploaded, or as `prepare` fetched it."""
        ref = self.job.parameters.get("audio") or self.prepared.get("audio")
        return ref if needs(self.job.pk, ref) else None

    def transcript(self) -> dict[str, Any] | None:
        """None until it is completed. Raises ArtifactError and NotATranscript."""
        ref = self.merged.get("transcript")
        if self.job.status != JobStatus.COMPLETED or not is_reference(ref):
            return None
        return document.read(the_store().read(ref))


def with_results(jobs: Iterable[Job]) -> list[Transcription]:
    """In the order of the jobs, by one query."""
    rows = list(jobs)
    found: dict[tuple[UUID, str], dict[str, Any]] = {}
    ends = Task.objects.filter(job_id__in=[job.pk for job in rows], stage__in=[PREPARE, MERGE])
    for job_id, stage, result in ends.values_list("job_id", "stage", "result"):
        if isinstance(result, dict):
            found[job_id, stage] = result
    return [Transcription(job, found.get((job.pk, PREPARE), {}), found.get((job.pk, MERGE), {})) for job in rows]


def progress_of(job: Job) -> float:
    """Weighted by the stages, with what their engines report right now. Without Redis, what is over."""
    if job.finished_at is not None:
        return job.progress
    tasks = list(job.tasks.only("id", "stage", "queue", "status", "weight"))
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    reported = read_progress(running, get_broker()) or {}
    shares = {task.pk: reported.get(task.pk, NO_PROGRESS).fraction or 0.0 for task in running}
    return weighted([(task.weight, _share(task, shares)) for task in tasks])


def _share(task: Task, shares: dict[UUID, float]) -> float:
    return 1.0 if task.status in TASK_OVER else shares.get(task.pk, 0.0)


def weighted(stages: Sequence[tuple[float, float]]) -> float:
    """From (weight, share) of each stage. With one stage alone the others are still to come."""
    if len(stages) <= 1:
        return PREPARED * sum(share for _, share in stages)
    return sum(weight * share for weight, share in stages) / sum(weight for weight, _ in stages)
