"""Files that engines make: they count against their project, which then submits nothing more; others go on."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.artifacts import Artifact
from dalston_queue.jobs import artifacts, storage
from dalston_queue.jobs.operator.delete import delete_over
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, JobArtifact, Project
from dalston_queue.orchestrator.duties.artifacts import count_and_delete

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = 40_000


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    settings.DALSTON_ARTIFACTS_URL = tmp_path.as_uri()
    settings.DALSTON_MAX_STORED_BYTES = 100_000
    settings.DALSTON_MIN_FREE_DISK_RATIO = 0.0
    settings.DALSTON_ARTIFACT_GRACE_S = 0.0
    return tmp_path


def _stored(text: str) -> Artifact:
    return artifacts.the_store().put(io.BytesIO(text.encode().ljust(SIZE)))


def _made(project: Project, *texts: str) -> UUID:
    """A job that is over, whose results refer to these files."""
    job = submit(single_task("echo"), project=project).job_id
    artifacts.add_results({job: {_stored(text).ref for text in texts}})
    Job.objects.filter(pk=job).update(status="completed", finished_at=timezone.now())
    return job


def _bytes(project: Project) -> int:
    count_and_delete(timezone.now())
    project.refresh_from_db()
    return project.stored_bytes


def _post(token: str, path: str, body: object) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"}
    answer = Client().post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
    return answer.status_code, answer.json().get("code", "")


def test_a_project_whose_files_fill_its_share_submits_nothing_more_until_they_are_deleted(
    token_for: Callable[..., str], project: Project
) -> None:
    token, other = token_for("submit"), token_for("submit", project=Project.objects.create(name="other"))
    first = _made(project, "a", "b")
    assert _bytes(project) == 2 * SIZE
    known = {"task_type": "echo", "idempotency_key": "earlier"}
    assert _post(token, "tasks", known) == (201, "")
    _made(project, "c")
    assert _bytes(project) == 3 * SIZE
    single, job = {"task_type": "echo"}, {"name": "x", "stages": [{"stage": "echo"}]}
    for path, body in (("tasks", single), ("jobs", job), ("jobs:batch", {"jobs": [job]})):
        assert _post(token, path, body) == (507, "storage_full")
        assert _post(other, path, body)[0] in (200, 201)
    address = {"audio_url": "https://example.com/a.wav"}
    headers = {"Authorization": f"Bearer {token}"}
    assert Client().post("/v1/audio/transcriptions", address, headers=headers).status_code == 507
    repeated = {**single, "idempotency_key": "known"}
    assert _post(token, "tasks", repeated) == (507, "storage_full")
    assert _post(token, "tasks", known) == (200, ""), "what was stored under its key is found again"
    delete_over(first)
    assert _bytes(project) == SIZE
    assert _post(token, "tasks", single) == (201, "")


def test_the_files_of_engines_leave_less_room_for_uploads(project: Project) -> None:
    _made(project, "a", "b")
    _bytes(project)
    job = submit(single_task("echo"), project=project).job_id
    artifacts.add_upload(project.pk, job, _stored("upload"), "a.wav")
    assert storage.taken_by(project.pk) == 3 * SIZE, "an upload counts before housekeeping has counted it"
    assert _bytes(project) == 3 * SIZE
    assert storage.taken_by(project.pk) == 3 * SIZE


def test_a_file_counts_once_for_each_project_however_many_jobs_have_it(project: Project) -> None:
    other = Project.objects.create(name="other")
    jobs = [_made(project, "same"), _made(project, "same")]
    artifacts.add_upload(project.pk, jobs[1], _stored("upload"), "a.wav")
    _made(other, "same")
    assert (_bytes(project), _bytes(other)) == (2 * SIZE, SIZE)
    jobs.append(_made(project, "same"))
    assert _bytes(project) == 2 * SIZE
    for job, left in zip(jobs, (2 * SIZE, SIZE, 0), strict=True):
        delete_over(job)
        assert _bytes(project) == left
    assert _bytes(other) == SIZE


def test_a_reference_to_nothing_counts_nothing_until_a_later_one_finds_its_file(project: Project) -> None:
    invented = submit(single_task("echo"), project=project).job_id
    ref = _stored("late").ref
    artifacts.the_store().delete(ref)
    artifacts.add_results({invented: {ref}})
    assert _bytes(project) == 0
    assert not JobArtifact.objects.filter(counted=False).exists(), "it is not looked up each minute"
    later = _made(project, "late")
    assert _bytes(project) == SIZE
    delete_over(later)
    assert _bytes(project) == SIZE, "the first job keeps it"
    Job.objects.filter(pk=invented).update(status="completed", finished_at=timezone.now())
    delete_over(invented)
    assert _bytes(project) == 0
    assert not artifacts.the_store().exists(ref)


def test_rows_that_are_counted_again_add_nothing(project: Project) -> None:
    _made(project, "a")
    rows = storage.uncounted(10)
    for _ in range(2):
        storage.count_rows(rows, {row.ref: SIZE for row in rows})
    project.refresh_from_db()
    assert project.stored_bytes == SIZE
