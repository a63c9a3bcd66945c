"""Limits of uploads: size, memory of the process, a full queue, a store that fails, a store in S3."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dalston_queue.artifacts import open_store
from dalston_queue.models import Job, JobArtifact
from tests.api.transcription.conftest import URL
from tests.s3 import BUCKET
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 2**20
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="long.wav"\r\n\r\n'
TAIL = b"\r\n--b--\r\n"
FORM = {"Content-Type": "multipart/form-data; boundary=b"}


@contextmanager
def web_with(tmp_path: Path, **env: str) -> Iterator[Web]:
    made = environment()
    shutil.rmtree(urlsplit(made["DALSTON_ARTIFACTS_URL"]).path)
    web = Web({**made, "DALSTON_ARTIFACTS_URL": (tmp_path / "store").as_uri(), **env}, tmp_path / "log")
    try:
        yield web
    finally:
        web.process.stop()
        web.process.reap()


def send(client: httpx.Client, mebibytes: int, *, announced: bool = True) -> httpx.Response:
    """A form with a file of so many MiB, made while it is sent."""

    def body() -> Iterator[bytes]:
        yield HEAD
        yield from (b"%07d " % number * (MIB // 8) for number in range(mebibytes))
        yield TAIL

    length = {"Content-Length": str(len(HEAD) + mebibytes * MIB + len(TAIL))} if announced else {}
    return client.post(URL, content=body(), headers={**FORM, **length}, timeout=600)


def peak_mib(web: Web) -> float:
    """The largest resident size of the process so far."""
    status = Path(f"/proc/{web.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


@pytest.mark.parametrize("mebibytes", [96, pytest.param(1024, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_an_upload_of_any_size_needs_little_memory(
    tmp_path: Path, token_for: Callable[..., str], mebibytes: int
) -> None:
    with web_with(tmp_path) as web, web.client(token_for("submit", "read")) as client:
        assert send(client, 1).status_code == 201
        before = peak_mib(web)
        for announced in (True, False):
            assert send(client, mebibytes, announced=announced).status_code == 201
        whole = peak_mib(web)
        print(f"{mebibytes} MiB: {before:.0f} MiB before, {whole:.0f} MiB at most")
        assert whole < 200
        assert whole - before < 24
        row = JobArtifact.objects.order_by("pk").last()
        assert row.size == mebibytes * MIB
        # It is read in parts as well.
        with client.stream("GET", f"{URL}/{row.job_id}/audio") as answer:
            assert sum(len(part) for part in answer.iter_raw()) == row.size
        assert peak_mib(web) - before < 32


def test_what_is_too_large_is_refused_early_and_leaves_nothing(tmp_path: Path, token_for: Callable[..., str]) -> None:
    with web_with(tmp_path, DALSTON_MAX_UPLOAD_BYTES=str(3 * MIB)) as web, web.client(token_for("submit")) as client:
        for announced in (True, False):
            answer = send(client, 8, announced=announced)
            assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
            assert "3145728 bytes" in answer.json()["detail"]
        # Around a file that is small enough, within what a form may have.
        assert client.post(URL, files={"file": ("a.wav", b"x" * (3 * MIB + 1))}).status_code == 413
        assert send(client, 3).status_code == 201
    assert Job.objects.count() == 1
    assert len([path for path in (tmp_path / "store").rglob("*") if path.is_file()]) == 1


def test_a_full_queue_takes_no_upload(tmp_path: Path, token_for: Callable[..., str]) -> None:
    with web_with(tmp_path, DALSTON_BACKPRESSURE_WAITING="1") as web, web.client(token_for("submit")) as client:
        for _ in range(3):
            client.post("/api/v1/tasks", json={"task_type": "x", "stage": "prepare", "priority": "high"})
        answer = client.post(URL, files={"file": ("a.wav", b"x")})
        while answer.status_code == 201:  # depths are up to a second old
            answer = client.post(URL, files={"file": ("a.wav", b"x")})
        assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
        assert client.post(URL, files={"file": ("a.wav", b"x")}, data={"priority": "high"}).status_code == 201


def test_a_store_that_fails_is_503_and_says_why(tmp_path: Path, token_for: Callable[..., str]) -> None:
    with web_with(tmp_path) as web, web.client(token_for("submit", "read")) as client:
        made = client.post(URL, files={"file": ("a.wav", b"x")}).json()
        shutil.rmtree(tmp_path / "store")
        assert client.get(f"{URL}/{made['id']}/audio").status_code == 404
        (tmp_path / "store").write_text("no folder")
        for answer in (client.post(URL, files={"file": ("a.wav", b"x")}), client.get(f"{URL}/{made['id']}/audio")):
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
            assert "Not a directory" in answer.json()["detail"]


def test_recordings_in_s3_are_stored_and_served(
    tmp_path: Path, token_for: Callable[..., str], s3_env: dict[str, str]
) -> None:
    url = f"s3://{BUCKET}/uploads"
    with (
        web_with(tmp_path, DALSTON_ARTIFACTS_URL=url, **s3_env) as web,
        web.client(token_for("submit", "read")) as client,
    ):
        content = bytes(range(256)) * 20_000
        made = client.post(URL, files={"file": ("a.mp3", content)}).json()
        assert open_store(url).read(JobArtifact.objects.get().ref) == content
        assert client.get(f"{URL}/{made['id']}/audio").content == content
        part = client.get(f"{URL}/{made['id']}/audio", headers={"Range": "bytes=3000000-3000009"})
        assert (part.status_code, part.content) == (206, content[3_000_000:3_000_010])
