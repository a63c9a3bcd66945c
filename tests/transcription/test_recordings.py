"""Recordings through the real engines: right words, whatever dies on the way."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dalston_queue.models import DeadLetter, Job, Task
from engines.audio.samples import RATE
from tests.engines.prepare.files import encode, only_video, wave
from tests.engines.transcribe.decoding import decoded
from tests.jobs import make
from tests.s3 import BUCKET
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


def test_two_engines_transcribe_the_chunks_of_one_recording(pipeline: Pipeline) -> None:
    pipeline.start("prepare", "transcribe", "merge", DALSTON_AUDIO_CHUNK_S="20")
    pipeline.start_another("transcribe")
    job = pipeline.wait(pipeline.submit(recording("two_cities.wav")))
    chunks = Task.objects.filter(job=job, queue="transcribe").order_by("stage")
    names = ["transcribe_ch0_p1", "transcribe_ch0_p2", "transcribe_ch0_p3", "transcribe_ch0_p4"]
    assert [task.stage for task in chunks] == names
    assert len({task.assigned_worker_id for task in chunks}) == 2
    found = pipeline.transcript(job)
    assert word_error_rate(found["text"]) <= 0.08  # with chunks of twelve seconds a model has less context
    starts = [segment["start"] for segment in found["segments"]]
    assert starts == sorted(starts) and starts[-1] > 29


def test_each_channel_of_a_call_becomes_lines_of_its_own(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.start("prepare", "transcribe", "merge")
    voices = [decoded(recording(name))[: 9 * RATE] for name in ("two_cities.wav", "beckett.wav")]
    call = wave(tmp_path / "call.wav", np.stack(voices, axis=1).tobytes(), channels=2)
    found = pipeline.transcript(pipeline.wait(pipeline.submit(call, channels="separate")))
    texts = [" ".join(each["text"] for each in found["segments"] if each["channel"] == channel) for channel in (0, 1)]
    assert "best of times" in texts[0] and "tried" not in texts[0]
    assert "tried" in texts[1] and "times" not in texts[1]
    starts = [segment["start"] for segment in found["segments"]]
    assert starts == sorted(starts)


def test_engines_that_share_a_bucket_need_no_folder(
    pipeline_on: Callable[[str, Mapping[str, str]], Pipeline], s3_env: dict[str, str]
) -> None:
    pipeline = pipeline_on(f"s3://{BUCKET}/recordings", s3_env)
    pipeline.start("prepare", "transcribe", "merge")
    found = pipeline.transcript(pipeline.wait(pipeline.submit(recording("beckett.wav"))))
    assert "fail better" in found["text"].lower()


def broken(folder: Path, number: int) -> Path:
    """Each of another kind."""
    path = folder / f"broken-{number}.mp3"
    match number % 5:
        case 0:
            path.write_bytes(b"")
        case 1:
            path.write_text("no sound " * 100)
        case 2:
            only_video(path.with_suffix(".mp4")).rename(path)
        case 3:
            whole = encode(path, "libmp3lame").read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
        case _:
            wave(path, bytes(20_000 * 99), channels=10_000)
    return path


FORMATS: dict[str, dict[str, Any]] = {
    "wav": {"codec": "pcm_s16le"},
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
    mixed(pipeline, tmp_path, 7, 5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_files_at_once_with_ten_broken_ones(pipeline: Pipeline, tmp_path: Path) -> None:
    mixed(pipeline, tmp_path, 90, 10)
