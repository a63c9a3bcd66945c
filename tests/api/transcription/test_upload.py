"""Uploads: what is accepted, what is refused, and that nothing stays of what was refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from dalston_queue.artifacts import Store
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.models import Job, JobArtifact, Task
from dalston_queue.transcription.wanted import checked_url
from tests.api.transcription.conftest import SPEECH, URL
from tests.support import wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
Upload = Callable[..., httpx.Response]
Files = Callable[[], list[str]]


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"], answer.json()["detail"]


def test_an_upload_is_stored_under_its_content_and_makes_a_job(upload: Upload, store: Store) -> None:
    answer = upload(language="en", model="moonshine-tiny", channels="separate", priority="high", align="true")
    assert answer.status_code == 201, answer.text
    job = Job.objects.get(pk=answer.json()["id"])
    ref = f"sha256:{sha256(SPEECH).hexdigest()}"
    assert store.read(ref) == SPEECH
    row = JobArtifact.objects.get(job=job)
    assert (row.ref, row.size, row.name, row.kind, row.project_id) == (
        ref, len(SPEECH), "cities.wav", "upload", job.project_id,
    )  # fmt: skip
    task = Task.objects.get(job=job)
    assert (task.stage, task.queue, job.name, job.priority) == ("prepare", "prepare", "transcription", "high")
    assert task.parameters == {
        "audio": ref,
        "filename": "cities.wav",
        "model": "moonshine-tiny",
        "language": "en",
        "channels": "separate",
        "words": True,
        "align": True,
        "priority": "high",
    }


def test_the_answer_shows_how_it_stands(upload: Upload) -> None:
    out = upload().json()
    UUID(out["id"])
    assert (out["status"], out["progress"], out["filename"], out["model"]) == ("pending", 0.0, "cities.wav", "auto")
    assert (out["text"], out["segments"], out["error"], out["duration"]) == (None, None, None, None)


@pytest.mark.parametrize("granularity", ["timestamp_granularities[]", "timestamp_granularities"])
def test_times_of_words_are_asked_for_as_openai_does(upload: Upload, granularity: str) -> None:
    upload(**{granularity: ["word", "segment"]})
    assert asked() == (True, True)  # no model may have them by itself


def test_times_of_words_are_found_by_a_second_pass_unless_it_is_refused(upload: Upload) -> None:
    upload(**{"timestamp_granularities[]": "word", "align": "false"})
    assert asked() == (True, False)


def test_without_a_wish_there_are_no_times_of_words(upload: Upload) -> None:
    upload()
    assert asked() == (False, False)


def asked() -> tuple[bool, bool]:
    parameters = Task.objects.get().parameters
    return parameters["words"], parameters["align"]


def test_openais_name_of_a_model_means_any(upload: Upload) -> None:
    upload(model="whisper-1")
    assert Task.objects.get().parameters["model"] == "auto"


@pytest.mark.parametrize("path", ["/v1", "/api/v1"])
def test_both_addresses_are_the_same_route(client: httpx.Client, path: str) -> None:
    made = client.post(f"{path}/audio/transcriptions", files={"file": ("a.wav", b"x")})
    assert made.status_code == 201
    assert client.get(f"{path}/audio/transcriptions/{made.json()['id']}").status_code == 200
    assert client.get(f"{path}/models").json()["object"] == "list"
    assert client.get(f"{path}/audio/nothing").json()["code"] == "not_found"


def test_a_login_uploads_with_its_csrf_token_and_not_without(web: Web, admin_user: User, files: Files) -> None:
    before = files()
    with web.log_in(admin_user) as client:
        form = {"file": ("page.wav", b"from a page")}
        assert problem(client.post(URL, files=form))[:2] == (403, "csrf_failed")
        assert files() == before
        client.cookies["csrftoken"] = "a" * 32
        answer = client.post(URL, files=form, headers={"X-CSRFToken": "a" * 32})
    assert (answer.status_code, answer.json()["filename"]) == (201, "page.wav")


# --- idempotency keys -------------------------------------------------------------------------------------------------


def test_the_same_content_under_one_key_is_one_job_whatever_its_name(upload: Upload) -> None:
    key = {"Idempotency-Key": "transcribe-1"}
    first, again, renamed = (upload(headers=key), upload(headers=key), upload(name="other.wav", headers=key))
    assert (first.status_code, again.status_code, renamed.status_code) == (201, 200, 200)
    assert first.json()["id"] == again.json()["id"] == renamed.json()["id"]
    assert Job.objects.count() == JobArtifact.objects.count() == 1


@pytest.mark.parametrize("other", [{"content": b"other words"}, {"model": "moonshine-tiny"}, {"channels": "separate"}])
def test_another_request_under_the_same_key_is_refused(upload: Upload, other: dict[str, Any]) -> None:
    key = {"Idempotency-Key": "transcribe-1"}
    upload(headers=key)
    assert problem(upload(headers=key, **other))[:2] == (409, "idempotency_conflict")
    assert Job.objects.count() == 1


def test_the_job_of_a_key_is_found_without_sending_the_file_again(upload: Upload, client: httpx.Client) -> None:
    made = upload(headers={"Idempotency-Key": "mine"}).json()
    upload()
    found = client.get(URL, params={"idempotency_key": "mine"}).json()["items"]
    assert [each["id"] for each in found] == [made["id"]]
    assert client.get(URL, params={"idempotency_key": "none"}).json()["items"] == []


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("/srv/x/y.wav", "y.wav"),
        ("C:\\temp\\z.wav", "z.wav"),
        ("a\u202e3pm.wav", "a3pm.wav"),
        ("....", "audio"),
        ("speech.txt.exe", "speech.txt.exe"),  # the content decides, not the extension
        ("é 日本.mp3", "é 日本.mp3"),
        ("x" * 300 + ".wav", "x" * 196 + ".wav"),
    ],
)
def test_a_file_name_is_shown_and_never_a_path(upload: Upload, sent: str, shown: str) -> None:
    answer = upload(name=sent)
    assert (answer.status_code, answer.json()["filename"]) == (201, shown)


def test_an_empty_file_is_refused_by_its_name(upload: Upload, files: Files) -> None:
    before = files()
    assert problem(upload(content=b"", name="silence.wav")) == (422, "invalid", "file: silence.wav is empty.")
    assert (Job.objects.count(), files()) == (0, before)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"model": "gpt-5"}, "The model 'gpt-5' is not known; known are auto, whisper-1, moonshine-tiny"),
        ({"model": "moonshine-tiny", "language": "de"}, "The model moonshine-tiny speaks en, not de"),
        ({"language": "English"}, "language: "),
        ({"temperature": "0.2"}, "temperature: "),
        ({"response_format": "docx"}, "response_format: "),
        ({"channels": "left"}, "channels: "),
        ({"priority": "urgent"}, "priority: "),
        ({"timestamp_granularities[]": ["syllable"]}, "timestamp_granularities[].0: "),
        ({"model": ["auto", "whisper-1"]}, "model: Send it once"),
        ({"audio_url": "https://example.com/a.wav"}, "audio_url: send either"),
        ({"audio_url": "x", "file": "as a field"}, "file: "),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(
    upload: Upload, files: Files, form: dict[str, Any], expected: str
) -> None:
    before = files()
    status, code, detail = problem(upload(content=os.urandom(100_000), **form))
    assert (status, code) == (422, "invalid")
    assert detail.startswith(expected)
    assert (Job.objects.count(), files()) == (0, before)


@pytest.mark.parametrize("field", ["files", "audio"])
def test_a_file_in_another_field_is_refused(client: httpx.Client, files: Files, field: str) -> None:
    before = files()
    assert problem(client.post(URL, files={field: ("a.wav", SPEECH)}))[:2] == (422, "invalid")
    assert problem(client.post(URL, files=[("file", ("a.wav", SPEECH)), ("file", ("b.wav", SPEECH))]))[0] == 422
    assert problem(client.post(URL, data={"model": "auto"}, files={"model": (None, "auto")}))[0] == 422
    assert files() == before


@pytest.mark.parametrize("body", [b"", b"no form", b"--b\r\n", b'--b\r\nContent-Disposition: form-data; name="file"'])
def test_a_body_that_is_no_form_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post(URL, content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert problem(answer)[0] in (400, 422)
    answer = client.post(URL, content=body, headers={"Content-Type": "multipart/form-data"})
    assert problem(answer)[:2] == (400, "malformed_body")


@pytest.mark.parametrize("charset", ["zlib_codec", "utf-16", "undefined", "idna"])
def test_a_form_is_utf_8_whatever_it_says(client: httpx.Client, charset: str) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="\xc3\xa4.wav"\r\n\r\nx\r\n--b--\r\n'
    kind = f"multipart/form-data; boundary=b; charset={charset}"
    answer = client.post(URL, content=body, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["filename"]) == (201, "ä.wav")


def test_without_a_token_nothing_is_read(web: Web, files: Files) -> None:
    before = files()
    with web.client("dal_wrong") as client:
        answer = client.post(URL, files={"file": ("a.wav", b"x" * 10_000)})
    assert problem(answer)[:2] == (401, "token_invalid")
    assert files() == before


def test_an_upload_that_breaks_off_leaves_nothing(web: Web, token_for: Callable[..., str], files: Files) -> None:
    before = files()
    head = (
        f"POST {URL} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token_for('submit')}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 9000000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"; filename="cut.wav"\r\n\r\n'
    )
    with socket.create_connection(("127.0.0.1", web.port)) as connection:
        connection.sendall(head.encode() + os.urandom(3_000_000))
        wait_until(
            lambda: len(files()) == len(before) + 1,
            what=lambda: f"it is on its way: {before}, {files()}\n{web.process.output[-3000:]}",
        )
    wait_until(lambda: files() == before, what="nothing of it stays")
    assert Job.objects.count() == 0
    assert "Traceback" not in web.process.output


def test_uploads_without_a_length_are_read_too(client: httpx.Client) -> None:
    def chunks() -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="chunked.wav"\r\n\r\n'
        yield from (b"speech " * 1000 for _ in range(20))
        yield b"\r\n--b--\r\n"

    answer = client.post(URL, content=chunks(), headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 201, answer.text
    assert JobArtifact.objects.get().size == 7 * 1000 * 20


# --- by address -------------------------------------------------------------------------------------------------------


def test_an_address_is_accepted_and_not_called(client: httpx.Client) -> None:
    answer = client.post(
        URL, data={"audio_url": "https://example.com/talks/two%20cities.mp3?x=1"}, files={"a": (None, "")}
    )
    assert problem(answer)[0] == 422  # `a` is no field
    form = {"audio_url": (None, "https://example.com/talks/two%20cities.mp3?x=1")}
    out = client.post(URL, files=form)
    assert (out.status_code, out.json()["filename"]) == (201, "two cities.mp3")
    task = Task.objects.get()
    assert task.parameters["audio_url"] == "https://example.com/talks/two%20cities.mp3?x=1"
    assert "audio" not in task.parameters


@pytest.mark.parametrize("url", [
    "http://127.0.0.1/x", "http://10.1.2.3/x", "http://[::1]/x", "http://169.254.169.254/latest", "nonsense",
    "ftp://example.com/x", "file:///etc/passwd", "http://localhost:8000/x", "http://a:b@example.com/x", "http://0x7f.1/x",
])  # fmt: skip
def test_an_address_in_a_private_network_is_refused_as_text(url: str, settings: Settings) -> None:
    settings.DALSTON_AUDIO_ALLOWED_NETWORKS = []
    with pytest.raises(InvalidJob, match="the audio_url "):
        checked_url(url)


def test_allowed_networks_are_a_setting(settings: Settings) -> None:
    settings.DALSTON_AUDIO_ALLOWED_NETWORKS = ["10.0.0.0/8"]
    assert checked_url("http://10.1.2.3/x.wav") == "http://10.1.2.3/x.wav"
