"""Retention of artifacts: files go with the last job that needs them, orphans after a day."""

from __future__ import annotations

import io
import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.artifacts import Artifact
from dalston_queue.artifacts.folder import FolderStore
from dalston_queue.jobs.artifacts import add_results, add_upload, needs
from dalston_queue.jobs.operator.delete import delete_over
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, JobArtifact, Project
from dalston_queue.orchestrator.duties import artifacts as duty
from dalston_queue.orchestrator.duties.artifacts import PARTS, count_and_delete
from dalston_queue.orchestrator.duties.housekeeping import delete_expired

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> FolderStore:
    settings.DALSTON_ARTIFACTS_URL = (tmp_path / "store").as_uri()
    return FolderStore(tmp_path / "store")


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="alpha")


def put(store: FolderStore, content: bytes, *, hours: float = 0) -> Artifact:
    artifact = store.put(io.BytesIO(content))
    stored = time.time() - hours * 3600
    os.utime(store.path(artifact.ref, store.root), (stored, stored))
    return artifact


def job(project: Project, *artifacts: Artifact, over: bool = True) -> Job:
    made = Job.objects.get(pk=submit(single_task("echo"), project=project).job_id)
    for artifact in artifacts:
        add_upload(project.pk, made.pk, artifact, "a.wav")
    if over:
        Job.objects.filter(pk=made.pk).update(status="completed", finished_at=timezone.now())
    return made


def all_parts() -> None:
    """Every part of the store once, as in four hours."""
    for part in range(PARTS):
        count_and_delete(datetime.fromtimestamp(part * 60, tz=timezone.get_current_timezone()))


def test_a_file_goes_with_the_last_job_that_needs_it(store: FolderStore, project: Project) -> None:
    shared, own = put(store, b"shared", hours=2), put(store, b"own", hours=2)
    first, second = job(project, shared, own), job(project, shared)
    assert delete_over(first.pk)
    count_and_delete(timezone.now())
    assert (store.exists(own.ref), store.exists(shared.ref)) == (False, True)
    assert list(JobArtifact.objects.values_list("job_id", flat=True)) == [second.pk]
    assert delete_over(second.pk)
    count_and_delete(timezone.now())
    assert not store.exists(shared.ref)
    assert not JobArtifact.objects.exists()


def test_a_file_that_was_just_stored_again_waits(store: FolderStore, project: Project) -> None:
    artifact = put(store, b"again", hours=2)
    delete_over(job(project, artifact).pk)
    put(store, b"again")  # another upload of the same content, whose job is not committed yet
    count_and_delete(timezone.now())
    assert store.exists(artifact.ref)
    assert JobArtifact.objects.count() == 1


def test_expired_jobs_release_their_files(store: FolderStore, project: Project, settings: Settings) -> None:
    artifact = put(store, b"old", hours=2)
    old = job(project, artifact)
    Job.objects.filter(pk=old.pk).update(finished_at=timezone.now() - timedelta(days=settings.DALSTON_HISTORY_DAYS + 1))
    delete_expired(timezone.now())
    count_and_delete(timezone.now())
    assert not store.exists(artifact.ref)


def test_an_orphan_goes_after_a_day_and_a_needed_file_stays(store: FolderStore, project: Project) -> None:
    orphan, young, kept = put(store, b"orphan", hours=25), put(store, b"young", hours=2), put(store, b"kept", hours=99)
    job(project, kept, over=False)
    all_parts()
    assert [store.exists(each.ref) for each in (orphan, young, kept)] == [False, True, True]


def test_what_a_killed_upload_left_is_deleted(store: FolderStore) -> None:
    left = store.root / "incoming" / "0123"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    count_and_delete(timezone.now())
    assert left.exists()
    os.utime(left, (1, 1))
    count_and_delete(timezone.now())
    assert not left.exists()


def test_many_released_files_go_in_batches(
    store: FolderStore, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are too young don't hold up the others for ever."""
    monkeypatch.setattr(duty, "BATCH", 2)
    made = [put(store, bytes([number]), hours=0 if number < 2 else 2) for number in range(7)]
    for each in made:
        delete_over(job(project, each).pk)
    for _ in range(4):
        count_and_delete(timezone.now())
    assert [store.exists(each.ref) for each in made] == [True, True, False, False, False, False, False]


def test_a_reference_opens_only_what_the_job_has(store: FolderStore, project: Project) -> None:
    mine, theirs = put(store, b"mine"), put(store, b"theirs")
    made = job(project, mine)
    add_results({made.pk: [theirs.ref]})
    add_results({made.pk: [theirs.ref]})  # an event may be applied twice
    assert needs(made.pk, mine.ref) and needs(made.pk, theirs.ref)
    assert not needs(made.pk, f"sha256:{'0' * 64}")
    assert not needs(made.pk, "../../etc/passwd")


def test_without_a_store_there_is_nothing_to_do(settings: Settings) -> None:
    settings.DALSTON_ARTIFACTS_URL = ""
    assert count_and_delete(timezone.now()).repaired == 0
