"""The pages of transcriptions: what they show of jobs in every state, and of hostile names and transcripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.dashboard.transcription import transcript as transcript_module
from dalston_queue.models import Job, OperatorAction, Task
from tests.dashboard.transcription import make as made
from tests.jobs import make
from tests.orchestrator.support import Steps, engine

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]


@pytest.fixture(autouse=True)
def artifacts(tmp_path: Path, settings: Settings) -> Path:
    settings.DALSTON_ARTIFACTS_URL = (tmp_path / "artifacts").as_uri()
    return tmp_path / "artifacts"


def text_of(client: Client, path: str = "/transcriptions/", status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content[:500]
    return answer.content.decode()


def test_without_a_transcription_the_list_says_how_to_make_one(viewer: Client, operator: Client) -> None:
    assert "No transcription yet" in text_of(viewer)
    assert 'type="file"' in text_of(operator)
    assert 'type="file"' not in text_of(viewer) and "you need the role operator" in text_of(viewer)


def test_the_list_has_transcriptions_only_newest_first_with_length_and_first_words(
    viewer: Client, broker: Broker
) -> None:
    make.single("echo")
    first, second = made.completed(broker), made.rejected(broker)
    text = text_of(viewer)
    assert re.findall(r'<tr id="transcription-([^"]+)"', text) == [str(second), str(first)]
    assert ">0:06<" in text and "It was the best of times, it was the &lt;worst&gt;" in text
    assert "notes.txt has no audio" in text and "stage prepare" not in text


def test_pages_of_the_list_fit_together(viewer: Client, broker: Broker) -> None:
    ids = [str(made.submitted()) for _ in range(52)]
    text = text_of(viewer)
    found = re.findall(r'<tr id="transcription-([^"]+)"', text)
    older = re.search(r'id="older-next" rel="next" href="([^"]+)"', text)
    assert older is not None
    found += re.findall(r'<tr id="transcription-([^"]+)"', text_of(viewer, f"/transcriptions/{older.group(1)}"))
    assert found == ids[::-1]
    assert "is no id" in text_of(viewer, "/transcriptions/?after=x", 400)


def test_the_list_takes_as_many_queries_for_fifty_as_for_one(viewer: Client, broker: Broker) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(viewer)
        return len(captured)

    made.submitted()
    one = queries()
    for _ in range(30):
        made.submitted()
    assert queries() == one


def test_a_running_one_shows_its_share_of_all_stages_and_what_it_does(
    viewer: Client, broker: Broker, steps: Steps
) -> None:
    job_id = made.submitted()
    page = f"/transcriptions/{job_id}/"
    assert "starting" in text_of(viewer, page)
    steps.poll()
    assert "waiting at stage prepare" in text_of(viewer, page)
    assert "No ready engine serves the queue prepare." in text_of(viewer, page), "why it waits"
    answer = made.answers(made.transcript())
    with engine(broker, *made.QUEUES) as consumer:
        [prepare] = consumer.claim()
        consumer.exchange([(prepare, answer(prepare))], free=0)
        steps.drain()
        [transcribe] = consumer.claim()
        consumer.renew_all({transcribe.task_id: {"fraction": 0.5, "message": "3 of 6 s"}})
        steps.drain()
        text = text_of(viewer, page)
        assert "50 %" in text and "transcribing" in text, "one of three stages, and half of the second"
        assert 'data-parts="10"' in text and 'id="wave-bars"' in text, "the waveform is there before the transcript"
        assert "50 %" in text_of(viewer)
        consumer.exchange([(transcribe, answer(transcribe))], free=0)


def test_a_completed_one_has_words_with_times_waveform_and_downloads(viewer: Client, broker: Broker) -> None:
    job_id = made.completed(broker, "talk.final.mp3")
    text = text_of(viewer, f"/transcriptions/{job_id}/")
    assert '<span class="w" data-at="0.50">was</span>' in text
    assert '<span class="w guessed" data-at="1.50">best</span>' in text and "their time is estimated" in text
    assert '<a class="at" href="#t=3.00" aria-label="Play from 0:03">0:03</a>' in text
    assert "&lt;worst&gt;" in text and "<worst>" not in text
    for ending in ("txt", "srt", "vtt", "json"):
        url = f"/v1/audio/transcriptions/{job_id}/export/{ending}"
        assert f'href="{url}" download="talk.final.{ending}"' in text
    assert f'src="/v1/audio/transcriptions/{job_id}/audio"' in text
    assert 'data-parts="11"' in text and 'data-duration="6.00"' in text


def test_channels_are_named_and_a_model_without_word_times_plays_segments(viewer: Client, broker: Broker) -> None:
    job_id = made.completed(broker, document=made.transcript(words=False, channels=2))
    text = text_of(viewer, f"/transcriptions/{job_id}/")
    assert '<span class="tag">channel 1</span>' in text and '<span class="tag">channel 2</span>' in text
    assert '<span class="w" data-at="3.00">it was the &lt;worst&gt; of times.</span>' in text
    assert "There are no times of words" in text


def test_a_text_of_the_last_resort_says_that_it_is_poor_unless_it_was_asked_for(viewer: Client, broker: Broker) -> None:
    document = {**made.transcript(), "model": "pocketsphinx-en"}
    job_id = made.completed(broker, document=document)
    assert "no engine had a better model than pocketsphinx-en" in text_of(viewer, f"/transcriptions/{job_id}/")
    asked = made.run(broker, made.submitted(model="pocketsphinx-en"), made.answers(document))
    Job.objects.filter(pk=asked).update(parameters={"model": "pocketsphinx-en"})
    assert "last resort" not in text_of(viewer, f"/transcriptions/{asked}/")
    good = made.completed(broker)
    assert "last resort" not in text_of(viewer, f"/transcriptions/{good}/")


def test_silence_is_no_error(viewer: Client, broker: Broker) -> None:
    job_id = made.completed(broker, document=made.transcript(sentences=()))
    assert "No speech was found in this recording." in text_of(viewer, f"/transcriptions/{job_id}/")


def test_a_rejected_one_says_why_and_has_no_downloads(viewer: Client, broker: Broker) -> None:
    job_id = made.rejected(broker, "a.wav", "a.wav is empty")
    text = text_of(viewer, f"/transcriptions/{job_id}/")
    assert '<p class="problem"><bdi>a.wav is empty' in text
    assert "There is no transcript: it failed." in text and "/export/" not in text


def test_a_name_cannot_turn_the_line_around_or_break_the_page(viewer: Client, broker: Broker) -> None:
    name = 'evil\u202egpj.<img src=x onerror=alert(1)>".wav'
    job_id = made.completed(broker, name)
    for path in ("/transcriptions/", f"/transcriptions/{job_id}/"):
        text = text_of(viewer, path)
        assert "<img src=x" not in text
        escaped = "evil\u202egpj.&lt;img src=x onerror=alert(1)&gt;&quot;.wav"
        outside = text.replace(f"<bdi>{escaped}</bdi>", "").replace(f"<title>{escaped} – Dalston</title>", "")
        stem = f'download="{escaped.removesuffix(".wav")}.'
        assert "\u202e" not in outside.replace(stem, "")


def test_what_an_engine_may_report_by_mistake_is_no_500(viewer: Client, broker: Broker, artifacts: Path) -> None:
    job_id = made.completed(broker)
    page = f"/transcriptions/{job_id}/"
    reported: tuple[Any, ...] = (
        {"duration": "long", "peaks": "loud"},
        {"duration": "NaN", "peaks": [1e308, -1e308]},
        {"duration": "1e999"},
        {"duration": -1e308},
        {"duration": None, "peaks": {"a": 1}},
        {"peaks": [1, "x", None, 2.5, 10**400]},
        [],
        "nothing",
        None,
    )
    for wrong in reported:
        Task.objects.filter(job_id=job_id, stage="prepare").update(result=wrong)
        Task.objects.filter(job_id=job_id, stage="merge").update(result=wrong)
        text_of(viewer, page)
        text_of(viewer)
    wrong_files = (b"", b"[]", b"null", b'{"segments": [{}]}', b'{"segments": [{"start": "x", "text": 1}]}', b"\xff")
    for content in (*wrong_files, b'{"segments": [{"start": 1e999, "text": "a"}]}', b"[" * 100_000):
        Task.objects.filter(job_id=job_id, stage="merge").update(result={"transcript": _stored(content)})
        assert "The transcript cannot be read" in text_of(viewer, page), content
    for ref, words in (
        (f"sha256:{'0' * 64}", "is not in the artifact store any more"),
        ("../../etc/passwd", "artifact store does not answer"),
    ):
        Task.objects.filter(job_id=job_id, stage="merge").update(result={"transcript": ref})
        assert words in text_of(viewer, page)


def _stored(content: bytes) -> str:
    import io

    from django.conf import settings

    from dalston_queue.artifacts import open_store

    return open_store(settings.DALSTON_ARTIFACTS_URL).put(io.BytesIO(content)).ref


def test_a_transcript_that_is_too_long_for_a_page_is_cut_and_says_so(
    viewer: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = made.completed(broker)
    page = f"/transcriptions/{job_id}/"
    monkeypatch.setattr(transcript_module, "MAX_SEGMENTS", 1)
    assert "too long to be shown whole" in text_of(viewer, page)
    monkeypatch.setattr(transcript_module, "MAX_WORDS", 3)
    assert '<span class="w" data-at="0.00">It was the best of times,</span>' in text_of(viewer, page)
    monkeypatch.setattr(transcript_module, "MAX_BYTES", 10)
    assert "too long for a page; the downloads have it" in text_of(viewer, page)


def test_it_is_cancelled_while_it_runs_and_deleted_when_it_is_over(
    operator: Client, viewer: Client, broker: Broker
) -> None:
    job_id = made.submitted()
    page = f"/transcriptions/{job_id}/"
    assert "Cancel…" in text_of(operator, page) and "Cancel…" not in text_of(viewer, page)

    def press(verb: str, reason: str) -> str:
        answer = operator.post(f"{page}{verb}/", {"reason": reason}, follow=True)
        assert answer.status_code == 200
        return answer.content.decode()

    for verb in ("cancel", "delete"):
        assert viewer.post(f"{page}{verb}/", {"reason": "x"}).status_code == 403
        assert "a reason is needed" in press(verb, " ")
    assert "Cancel it first" in press("delete", "wrong file")
    assert "Cancelled. No task was running." in press("cancel", "wrong file")
    assert "Nothing was changed: the job is cancelled already." in press("cancel", "again")
    assert "two cities.wav is deleted" in press("delete", "wrong <file>")
    text_of(operator, page, 404)
    assert operator.post(f"{page}delete/", {"reason": "x"}).status_code == 404
    assert operator.post(f"/transcriptions/{made.submitted()}/explode/", {"reason": "x"}).status_code == 404
    actions = OperatorAction.objects.order_by("id").values_list("action", "reason")
    assert list(actions) == [
        ("job.cancel", "wrong file"),
        ("job.cancel", "again"),
        ("transcription.delete", "wrong <file>"),
    ]


def test_other_jobs_and_unknown_ids_have_no_such_page(viewer: Client, broker: Broker) -> None:
    for job_id in (make.single("echo").job_id, uuid4()):
        text_of(viewer, f"/transcriptions/{job_id}/", 404)


def test_a_cancelled_one_says_so(viewer: Client, broker: Broker) -> None:
    job_id = made.submitted()
    Job.objects.filter(pk=job_id).update(status="cancelled", finished_at=timezone.now())
    assert "There is no transcript: it was cancelled." in text_of(viewer, f"/transcriptions/{job_id}/")
