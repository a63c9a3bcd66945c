"""OpenAI's own client, pointed at a real web process, orchestrator and engine, gets its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
import srt
import yaml
from django.utils import timezone

from dalston_queue.models import ApiToken, Job
from tests.api.transcription import speech
from tests.api.transcription.conftest import SPEECH, URL, Fleet
from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.support import Spawned, wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
Upload = Callable[..., httpx.Response]


@pytest.fixture
def engines(web: Web, spawn: Callable[..., Spawned], tmp_path: Path) -> Iterator[list[Spawned]]:
    """An orchestrator, and an engine that stands in for all stages."""
    manifest = {"id": "speech", "stages": list(speech.QUEUES), "command": ["python", "engine.py"], "capacity": 4}
    (tmp_path / "engine.yaml").write_text(yaml.safe_dump(manifest))
    env = {**web.env, "PYTHONPATH": str(ROOT)}
    orchestrator = spawn("manage.py", "runorchestrator", env=env)
    engine = spawn(
        "-m", "tests.api.transcription.speech", env={**env, "DALSTON_ENGINE_MANIFEST": str(tmp_path / "engine.yaml")}
    )
    yield [orchestrator, engine]
    for process in (engine, orchestrator):
        process.stop()


@pytest.fixture
def whisper(web: Web, token_for: Callable[..., str]) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{web.url}/v1", api_key=token_for("submit", "read"), max_retries=0, timeout=60)


def test_it_gets_the_transcript_in_every_format(whisper: openai.OpenAI, engines: list[Spawned], tmp_path: Path) -> None:
    file = ("cities.wav", SPEECH)
    create = whisper.audio.transcriptions.create
    text = "it was the best of times it was the worst of times"
    assert create(model="whisper-1", file=file).text == text
    verbose = create(
        model="whisper-1", file=file, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert (verbose.text, verbose.duration, verbose.language) == (text, 4.0, "en")
    assert [word.word for word in verbose.words or ()] == text.split()
    assert [(segment.start, segment.end) for segment in verbose.segments or ()] == [(0.0, 3.0), (3.0, 6.0)]
    subtitles = create(model="whisper-1", file=file, response_format="srt")
    assert [cue.content for cue in srt.parse(subtitles)] == SPEECH.decode().splitlines()
    assert create(model="whisper-1", file=file, response_format="vtt").startswith("WEBVTT")
    assert create(model="whisper-1", file=file, response_format="text").split() == text.split()
    assert "moonshine-tiny" in {model.id for model in whisper.models.list()}
    # and its errors
    stubborn = whisper.with_options(max_retries=2).audio.transcriptions
    with pytest.raises(openai.UnprocessableEntityError) as rejected:
        stubborn.create(model="whisper-1", file=("holiday.jpg", b"broken"))
    assert "holiday.jpg has no audio" in str(rejected.value) and rejected.value.code == "audio_rejected"
    assert Job.objects.filter(parameters__filename="holiday.jpg").count() == 1  # it is not sent again
    with pytest.raises(openai.UnprocessableEntityError) as unknown:
        create(model="gpt-5", file=file)
    assert "'gpt-5' is not known" in str(unknown.value)
    with pytest.raises(openai.UnprocessableEntityError, match="temperature"):
        create(model="whisper-1", file=file, temperature=0.5)
    # The example of the page, with the file that it names.
    [example] = blocks_of("docs/transcription.md", "python")
    (tmp_path / "speech.wav").write_bytes(SPEECH)
    code = example.replace("speech.wav", str(tmp_path / "speech.wav"))
    printed: list[str] = []
    names = {"url": str(whisper.base_url).removesuffix("/v1/"), "token": whisper.api_key, "print": printed.append}
    exec(compile(code, "docs/transcription.md", "exec"), names)
    assert printed == [text]


def test_a_repeated_request_of_it_joins_the_job_of_the_first(upload: Upload, fleet: Fleet) -> None:
    stainless = {"X-Stainless-Lang": "python", "Prefer": "wait=0"}
    first = upload(headers=stainless)
    assert (first.status_code, first.json()["code"]) == (504, "still_running")
    again = upload(headers={**stainless, "X-Stainless-Retry-Count": "1"})
    assert (again.status_code, Job.objects.count()) == (504, 1)
    upload(content=b"something else", headers={**stainless, "X-Stainless-Retry-Count": "1"})
    assert Job.objects.count() == 2
    fleet.finish()
    done = upload(headers={**stainless, "X-Stainless-Retry-Count": "2"})
    assert (done.status_code, done.json(), Job.objects.count()) == (
        200, {"text": "it was the best of times it was the worst of times"}, 2,
    )  # fmt: skip
    upload(headers=stainless)  # not a repetition: a new job
    assert Job.objects.count() == 3


def test_who_waits_gets_the_reason_of_a_failure(upload: Upload, fleet: Fleet) -> None:
    wait = {"Prefer": "respond-async, wait=0"}
    key = {"Idempotency-Key": "broken"}
    assert upload(content=b"broken", name="x.jpg", headers={**wait, **key}).status_code == 504
    fleet.finish()
    answer = upload(content=b"broken", name="x.jpg", headers={**wait, **key})
    assert (answer.status_code, answer.json()["code"]) == (422, "audio_rejected")
    assert "x.jpg has no audio" in answer.json()["detail"]
    assert answer.headers["x-should-retry"] == "false"


def test_a_token_that_is_revoked_meanwhile_gets_no_transcript(
    web: Web, token_for: Callable[..., str], fleet: Fleet
) -> None:
    form, wait = {"file": ("a.wav", SPEECH)}, {"Prefer": "wait=30"}
    with web.client(token_for("submit")) as client, ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.post, URL, files=form, headers=wait)
        wait_until(Job.objects.exists, what="the job is stored")
        ApiToken.objects.update(revoked_at=timezone.now())
        fleet.finish()
        assert waiting.result().json()["code"] == "token_revoked"


def test_a_client_that_leaves_while_it_waits_changes_nothing(web: Web, token_for: Callable[..., str]) -> None:
    half_a_second = httpx.Timeout(40, read=0.5)
    with web.client(token_for("submit")) as client, pytest.raises(httpx.ReadTimeout):
        client.post(URL, files={"file": ("a.wav", SPEECH)}, headers={"Prefer": "wait"}, timeout=half_a_second)
    assert Job.objects.get().status == "pending"
    assert "Traceback" not in web.process.output
