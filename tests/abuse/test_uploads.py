"""Uploads: one project fills its share of the artifact store, not the disk of all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from dalston_queue.api.requests import room as rooms_of
from dalston_queue.api.requests.room import Room
from dalston_queue.jobs.errors import StorageFull
from dalston_queue.models import Job, JobArtifact, Project

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = 40_000


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    settings.DALSTON_ARTIFACTS_URL = tmp_path.as_uri()
    settings.DALSTON_MAX_STORED_BYTES = 100_000
    settings.DALSTON_MIN_FREE_DISK_RATIO = 0.0
    return tmp_path


def _files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def _upload(token: str, content: bytes) -> tuple[int, str]:
    file = SimpleUploadedFile("a.wav", content)
    headers = {"Authorization": f"Bearer {token}"}
    answer = Client().post("/api/v1/audio/transcriptions", {"file": file}, headers=headers)
    return answer.status_code, answer.json().get("code", "")


def test_a_project_stores_no_more_than_its_share_and_others_go_on(token_for: Callable[..., str], store: Path) -> None:
    token, other = token_for("submit"), token_for("submit", project=Project.objects.create(name="other"))
    known = secrets.token_bytes(SIZE)
    assert [_upload(token, known)[0] for _ in range(2)] == [201, 201], "the same content counts once"
    assert _upload(token, secrets.token_bytes(SIZE))[0] == 201
    assert _upload(token, secrets.token_bytes(SIZE)) == (507, "storage_full")
    assert _files(store) == 2, "what was refused leaves nothing"
    assert _upload(other, secrets.token_bytes(SIZE))[0] == 201
    Job.objects.filter(project__name="alpha").delete()
    JobArtifact.objects.filter(job=None).delete()
    assert _upload(token, secrets.token_bytes(SIZE))[0] == 201, "there is room again"
    assert not rooms_of._coming


def test_uploads_that_come_at_the_same_time_share_the_room(project: Project) -> None:
    rooms = [Room(project.pk) for _ in range(4)]  # each was let in
    refused = set()
    for _ in range(4):
        for number, room in enumerate(rooms):
            try:
                room.take(SIZE // 4)
            except StorageFull:
                refused.add(number)
    assert len(refused) >= 2
    for room in rooms:
        room.close()
    assert not rooms_of._coming


def test_a_disk_that_is_nearly_full_takes_no_upload(
    token_for: Callable[..., str], settings: Settings, store: Path
) -> None:
    settings.DALSTON_MIN_FREE_DISK_RATIO = 1.0
    assert _upload(token_for("submit"), b"x") == (507, "storage_full")
    assert _files(store) == 0
