"""The real models on a real recording: 44 seconds of Dickens, read aloud."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from engines.audio.samples import RATE, Samples, read, write
from engines.audio.speech import find_speech, pack
from engines.sdk import TaskCancelled
from engines.transcribe.moonshine import Moonshine, text_of
from engines.transcribe.recogniser import Recogniser
from engines.transcribe.results import segments_of
from engines.transcribe.sphinx import Sphinx
from tests.conftest import ROOT
from tests.engines.transcribe.decoding import decoded
from tests.tools.recordings import moonshine_folder, recording, word_error_rate


@pytest.fixture(scope="module")
def two_cities() -> Samples:
    return decoded(recording("two_cities.wav"))


@pytest.fixture(scope="module")
def moonshine() -> Moonshine:
    return Moonshine(moonshine_folder(), threads=1)


def segments(samples: Samples, model: Recogniser, offset: float = 0.0) -> list[dict[str, object]]:
    windows = pack(find_speech(samples), model.longest_s, len(samples) / RATE)
    heard = model.recognise(samples, windows, None, words=True, tick=lambda: None)
    return [segment for each in heard for segment in segments_of(each, offset, words=True)]


def test_moonshine_makes_at_most_five_errors_in_a_hundred_words(two_cities: Samples, moonshine: Moonshine) -> None:
    found = segments(two_cities, moonshine, offset=100.0)
    assert word_error_rate(" ".join(str(segment["text"]) for segment in found)) <= 0.05
    assert len(found) > 5 and all(segment["words"] is None for segment in found)
    assert all(0.3 < segment["confidence"] <= 1.0 for segment in found)
    assert 100.0 < found[0]["start"] < 102.0 and 140.0 < found[-1]["end"] < 144.5
    assert all(before["end"] <= after["start"] for before, after in pairwise(found))


def test_a_cancel_ends_moonshine_within_a_window(two_cities: Samples, moonshine: Moonshine) -> None:
    calls = 0

    def tick() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise TaskCancelled("t")

    windows = pack(find_speech(two_cities[: 20 * RATE]), 25.0, 20.0)
    with pytest.raises(TaskCancelled):
        list(moonshine.recognise(two_cities, windows, None, words=False, tick=tick))
    assert calls == 5


def test_pocketsphinx_gives_words_with_times_and_is_ready_after_a_cancel(two_cities: Samples) -> None:
    model, part = Sphinx(), two_cities[: 5 * RATE]
    windows = pack(find_speech(part), model.longest_s, 5.0)

    def cancel() -> None:
        raise TaskCancelled("t")

    with pytest.raises(TaskCancelled):
        list(model.recognise(part, windows, None, words=True, tick=cancel))
    heard, again = (list(model.recognise(part, windows, None, words=True, tick=lambda: None)) for _ in range(2))
    assert again == heard  # it adapts to a recording, and forgets that for the next
    text = " ".join(each.text for each in heard)
    assert word_error_rate(text, "it was the best of times it was the worst of times") < 0.3
    words = [word for each in heard for word in each.words]
    assert all(0.0 <= word.start < word.end <= 5.0 for word in words)
    assert all(before.end <= after.start + 0.011 for before, after in pairwise(words))
    assert {word.confidence for word in words} == {None}


def test_speech_is_found_by_one_thread() -> None:
    """More would spin, and take the cores of other engines. In a process of its own: a library is loaded once."""
    source = (
        "import os, numpy as np; from engines.audio.speech import find_speech\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = threads(); find_speech(np.zeros(16_000, np.int16)); print(threads() - before)"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_silence_has_no_words(moonshine: Moonshine, two_cities: Samples) -> None:
    assert segments(two_cities[: RATE // 2] * 0, moonshine) == []


def test_a_vocabulary_joins_pieces_and_bytes() -> None:
    pieces = {0: "<unk>", 1: "<s>", 2: "</s>", 3: "▁caf", 4: "<0xC3>", 5: "<0xA9>", 6: "▁noir", 7: "!"}
    assert text_of([1, 3, 4, 5, 6, 7, 2, 99], pieces) == "café noir!"


def test_samples_pass_through_a_file_unchanged(two_cities: Samples, tmp_path: Path) -> None:
    write(tmp_path / "a.flac", two_cities)
    assert (read(tmp_path / "a.flac") == two_cities).all()
