"""Reading transcriptions: progress, text, errors that name the file, lists, projects, files with ranges, models."""

from __future__ import annotations

import io
from collections.abc import Callable

import httpx
import pytest
import srt
import webvtt

from dalston_queue.api.routes.transcription_files import range_of
from dalston_queue.artifacts import Store
from dalston_queue.models import Job, JobArtifact, Project, Task
from dalston_queue.transcription.state import weighted
from tests.api.transcription.conftest import SPEECH, URL, Fleet
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
Upload = Callable[..., httpx.Response]


def test_a_completed_one_has_its_text(upload: Upload, client: httpx.Client, fleet: Fleet) -> None:
    made = upload().json()
    fleet.finish()
    found = client.get(f"{URL}/{made['id']}").json()
    assert (found["status"], found["progress"], found["error"]) == ("completed", 1.0, None)
    assert found["text"] == "it was the best of times it was the worst of times"
    assert (found["duration"], found["language"], found["model"], found["word_times"]) == (
        4.0,
        "en",
        "stand-in",
        "model",
    )
    assert [segment["text"] for segment in found["segments"]] == SPEECH.decode().splitlines()
    assert found["segments"][1]["words"][3] == {
        "word": "worst", "start": 4.5, "end": 5.0, "confidence": None, "interpolated": False,
    }  # fmt: skip
    assert found["completed_at"] >= found["created_at"]


def test_the_files_of_accepted_results_are_kept(upload: Upload, fleet: Fleet) -> None:
    made = upload().json()
    fleet.finish()
    transcript = Task.objects.get(job_id=made["id"], stage="merge").result["transcript"]
    kinds = dict(JobArtifact.objects.filter(job_id=made["id"]).values_list("ref", "kind"))
    assert (len(kinds), kinds[transcript]) == (2, "result")


def test_progress_counts_the_stages_and_says_what_it_waits_for(
    upload: Upload, client: httpx.Client, fleet: Fleet
) -> None:
    made = upload().json()
    found = client.get(f"{URL}/{made['id']}").json()
    assert (found["progress"], found["status"]) == (0.0, "pending")
    fleet.steps.poll()
    found = client.get(f"{URL}/{made['id']}").json()
    assert found["waiting_for"].startswith("prepare: ")


def test_progress_is_weighted() -> None:
    assert weighted([(1.0, 1.0)]) == 0.05  # the other stages are not known yet
    assert weighted([(1.0, 1.0), (8.0, 0.5), (1.0, 0.0)]) == 0.5


def test_a_failed_one_says_why_and_names_the_file(upload: Upload, client: httpx.Client, fleet: Fleet) -> None:
    made = upload(content=b"broken", name="holiday.jpg").json()
    fleet.finish()
    found = client.get(f"{URL}/{made['id']}").json()
    assert (found["status"], found["text"]) == ("failed", None)
    assert "holiday.jpg has no audio" in found["error"]
    assert Task.objects.get(job_id=made["id"]).retry_count == 0


def test_lists_are_newest_first_by_pages_and_without_texts(upload: Upload, client: httpx.Client) -> None:
    made = [upload(name=f"{number}.wav").json()["id"] for number in range(3)]
    first = client.get(URL, params={"limit": 2}).json()
    rest = client.get(URL, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [each["id"] for each in first["items"] + rest["items"]] == made[::-1]
    assert rest["next_cursor"] is None
    assert "text" not in first["items"][0]
    assert client.get(URL, params={"status": "failed"}).json()["items"] == []


def test_another_project_sees_nothing_of_it(web: Web, upload: Upload, token_for: Callable[..., str]) -> None:
    made = upload().json()
    other = token_for("read", "submit", project=Project.objects.create(name="other"))
    with web.client(other) as stranger:
        assert stranger.get(URL).json()["items"] == []
        for path in ("", "/audio", "/export/srt"):
            assert stranger.get(f"{URL}/{made['id']}{path}").status_code == 404
        assert stranger.delete(f"{URL}/{made['id']}").status_code == 404


def test_a_job_of_another_kind_is_no_transcription(client: httpx.Client) -> None:
    task = client.post("/api/v1/tasks", json={"task_type": "echo"}).json()
    assert client.get(f"{URL}/{task['job_id']}").status_code == 404


# --- files ------------------------------------------------------------------------------------------------------------


def test_exports_are_files_that_other_programs_read(upload: Upload, client: httpx.Client, fleet: Fleet) -> None:
    made = upload(name="two cities.mp3").json()
    assert client.get(f"{URL}/{made['id']}/export/srt").json()["code"] == "state_conflict"
    fleet.finish()

    def export(kind: str) -> httpx.Response:
        return client.get(f"{URL}/{made['id']}/export/{kind}")

    answer = export("srt")
    assert answer.headers["content-type"] == "application/x-subrip; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="two cities.srt"'
    assert [cue.content for cue in srt.parse(answer.text)] == SPEECH.decode().splitlines()
    assert [cue.text for cue in webvtt.from_string(export("vtt").text).captions] == SPEECH.decode().splitlines()
    assert export("txt").text.splitlines() == SPEECH.decode().splitlines()
    assert export("json").json()["segments"][0]["end"] == 3.0
    assert export("docx").status_code == 422


def test_a_job_that_took_the_name_and_stored_something_else_is_no_500(
    upload: Upload, client: httpx.Client, fleet: Fleet, store: Store
) -> None:
    made = upload().json()["id"]
    fleet.finish()
    job = Job.objects.get(pk=made)
    job.parameters["filename"] = "../a\r\nSet-Cookie: a=b\u202e.wav"
    job.save()
    for path, name in (("audio", "aSet-Cookie: a=b.wav"), ("export/srt", "aSet-Cookie: a=b.srt")):
        answer = client.get(f"{URL}/{made}/{path}")
        assert answer.headers["content-disposition"].endswith(f'; filename="{name}"'), answer.text
    others = [b"", b"\xff", b"[]", b"null", b"[" * 100_000, b'{"text": "a", "duration": 1, "segments": [{}]}']
    fields = [b'"a", "duration": 1e999', b'"a", "duration": -1', b'"a", "duration": "x"', b'"\xff", "duration": 1']
    for content in others + [b'{"text": %s, "segments": []}' % each for each in fields]:
        result = {"transcript": store.put(io.BytesIO(content)).ref, "model": ["x"], "language": {"a": 1}}
        Task.objects.filter(job_id=made, stage="merge").update(result=result)
        for path in ("", "/export/srt"):
            answer = client.get(f"{URL}/{made}{path}")
            assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict"), (content, answer.text)


def test_the_recording_comes_back_whole_and_in_parts(upload: Upload, client: httpx.Client) -> None:
    content = bytes(range(256)) * 4000
    url = f"{URL}/{upload(content=content, name='talk.mp3').json()['id']}/audio"
    answer = client.get(url)
    assert (answer.status_code, answer.content) == (200, content)
    assert (answer.headers["accept-ranges"], answer.headers["content-type"]) == ("bytes", "audio/mpeg")
    for header, start, end in (
        ("bytes=0-99", 0, 99), ("bytes=1000000-", 1_000_000, 1_023_999), ("bytes=-24", 1_023_976, 1_023_999),
        ("bytes=5-99999999", 5, 1_023_999),
    ):  # fmt: skip
        answer = client.get(url, headers={"Range": header})
        assert (answer.status_code, answer.content) == (206, content[start : end + 1])
        assert answer.headers["content-range"] == f"bytes {start}-{end}/1024000"
    answer = client.get(url, headers={"Range": "bytes=1024000-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */1024000")


@pytest.mark.parametrize("header", ["", "bytes", "bytes=-", "bytes=9-1", "items=1-2", "bytes=1-2,5-6", "bytes=x-"])
def test_a_range_that_is_not_understood_means_everything(header: str) -> None:
    assert range_of(header, 100) is None


@pytest.mark.parametrize("name", ["page.html", "picture.svg", "script.js", "noise"])
def test_what_is_no_recording_by_its_name_can_not_run_in_a_browser(
    upload: Upload, client: httpx.Client, name: str
) -> None:
    answer = client.get(f"{URL}/{upload(name=name).json()['id']}/audio")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_recording_can_be_named_by_jobs_of_its_project_only(
    upload: Upload, client: httpx.Client, web: Web, token_for: Callable[..., str]
) -> None:
    """Engines read what parameters name, and echo would put it into a result: a reference must open nothing."""
    first = upload(content=b"a secret").json()["id"]
    ref = JobArtifact.objects.get(job_id=first).ref
    pipeline = {"pipeline": "transcription", "parameters": {"audio": ref, "filename": "mine.wav"}}
    bodies = {
        "jobs": pipeline,
        "tasks": {"task_type": "echo", "parameters": {"deep": [{"$artifact": ref}]}},
        "jobs:batch": {"jobs": [{"stages": [{"stage": "echo", "parameters": {"x": ref}}]}, pipeline]},
    }
    other = token_for("read", "submit", project=Project.objects.create(name="other"))
    with web.client(other) as stranger:
        for path, body in bodies.items():
            answer = stranger.post(f"/api/v1/{path}", json=body)
            assert "o job of this project has the artifact" in answer.text, answer.text
        assert not Job.objects.exclude(pk=first).exists()
        # Strings that look like references are none, as digests of images; and the same content may be sent by anyone.
        like = {"task_type": "echo", "parameters": {"image": f"sha256:{'0' * 64}"}}
        assert stranger.post("/api/v1/tasks", json=like).status_code == 201
        assert stranger.post(URL, files={"file": ("mine.wav", b"a secret")}).status_code == 201
    second = client.post("/api/v1/jobs", json=pipeline).json()["job_id"]
    assert client.delete(f"{URL}/{first}").json()["status"] == "cancelled"
    assert client.delete(f"{URL}/{first}").json()["status"] == "deleted"
    assert client.get(f"{URL}/{second}/audio").content == b"a secret"


def test_models_show_what_engines_have(client: httpx.Client, fleet: Fleet) -> None:
    models = {model["id"]: model for model in client.get("/v1/models").json()["data"]}
    assert {"auto", "moonshine-tiny", "whisper-large-v3"} <= models.keys()
    assert models["moonshine-tiny"]["languages"] == ["en"]
    assert models["whisper-large-v3"]["available"] is False
