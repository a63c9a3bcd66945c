"""Recordings through the real engines: right words, whatever dies on the way."""

from pathlib import Path
from typing import Any

import pytest

from dalston_queue.models import DeadLetter, Job, Task
from tests.engines.prepare.files import encode, only_video
from tests.jobs import make
from tests.tools.recordings import recording, word_error_rate
from tests.transcription.conftest import ENGINES, Pipeline


def test_each_engine_is_killed_once_and_the_transcript_is_the_same(pipeline: Pipeline) -> None:
    two_cities = recording("two_cities.wav")
    pipeline.start(*ENGINES)
    undisturbed = pipeline.wait(pipeline.submit(two_cities, words=True, align=True))
    expected = pipeline.transcript(undisturbed)
    assert word_error_rate(expected["text"]) <= 0.05
    assert expected["word_times"] == "aligned"

    disturbed = pipeline.submit(two_cities, words=True, align=True)
    for name in ENGINES:
        pipeline.claimed(name, disturbed)
        pipeline.kill(name)
        pipeline.start(name)
    pipeline.wait(disturbed)
    assert pipeline.transcript(disturbed) == expected
    assert sorted(make.statuses(disturbed).items()) == [(name, "completed") for name in sorted(ENGINES)]
    # merge takes milliseconds: its engine may have finished when it was killed.
    assert all("claimed_stale_task" in pipeline.engines[name].output for name in ENGINES if name != "merge")


def test_channels_and_chunks_become_one_transcript(pipeline: Pipeline) -> None:
    pipeline.start("prepare", "transcribe", "merge", DALSTON_AUDIO_CHUNK_S="20")
    job = pipeline.wait(pipeline.submit(recording("two_cities.wav")))
    chunks = Task.objects.filter(job=job, queue="transcribe").order_by("stage").values_list("stage", flat=True)
    assert list(chunks) == ["transcribe_ch0_p1", "transcribe_ch0_p2", "transcribe_ch0_p3", "transcribe_ch0_p4"]
    found = pipeline.transcript(job)
    assert word_error_rate(found["text"]) <= 0.08  # with chunks of twelve seconds a model has less context
    starts = [segment["start"] for segment in found["segments"]]
    assert starts == sorted(starts) and starts[-1] > 29


def broken(folder: Path, number: int) -> Path:
    path = folder / f"broken-{number}.mp3"
    if number % 3 == 0:
        path.write_bytes(b"")
    elif number % 3 == 1:
        path.write_text("no sound " * 100)
    else:
        only_video(path.with_suffix(".mp4")).rename(path)
    return path


FORMATS: dict[str, dict[str, Any]] = {
    "mp3": {"codec": "libmp3lame", "rate": 44_100, "channels": 2},
    "m4a": {"codec": "aac"},
    "ogg": {"codec": "libopus"},
    "flac": {"codec": "flac"},
    "webm": {"codec": "libopus"},
    "mp4": {"codec": "aac", "video": True},
}


def mixed(pipeline: Pipeline, folder: Path, good: int, bad: int) -> None:
    pipeline.start("prepare", "transcribe", "merge")
    beckett, files = recording("beckett.wav"), []
    for number in range(good):
        kind = list(FORMATS)[number % len(FORMATS)]
        # No two are alike: the content is the name in the store.
        seconds = 3.2 + number / 1000
        files.append(encode(folder / f"good-{number}.{kind}", recording=beckett, seconds=seconds, **FORMATS[kind]))
    wrong = [broken(folder, number) for number in range(bad)]
    jobs = [pipeline.submit(file) for file in files]
    refused = {pipeline.submit(file).id: file.name for file in wrong}
    for job in jobs:
        found = pipeline.transcript(pipeline.wait(job, "completed", "failed"))
        assert word_error_rate(found["text"], "Ever tried. Ever failed.") <= 0.25, found["text"]
    for job in Job.objects.filter(id__in=refused):
        pipeline.wait(job, "failed")
    letters = {letter.task.job_id: letter for letter in DeadLetter.objects.select_related("task")}
    assert set(letters) == set(refused)
    assert {(letter.cause, letter.attempt, letter.task.retry_count) for letter in letters.values()} == {
        ("rejected", 1, 0)
    }
    assert all(letters[job].error.startswith(name) for job, name in refused.items())


def test_good_files_are_transcribed_and_broken_ones_refused_without_a_retry(pipeline: Pipeline, tmp_path: Path) -> None:
    mixed(pipeline, tmp_path, 6, 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_files_at_once_with_ten_broken_ones(pipeline: Pipeline, tmp_path: Path) -> None:
    mixed(pipeline, tmp_path, 90, 10)
