"""align gives words their times: by the dictionary, and by interpolation for words that it lacks."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalston_queue.artifacts import open_store
from engines.align.alignment import Aligner
from engines.align.engine import Align, groups
from engines.align.words import plain, with_times
from engines.audio.samples import RATE, write
from engines.sdk import Done
from engines.sdk.testing import run_task
from tests.engines.transcribe.decoding import decoded
from tests.tools.recordings import recording


def align(tmp_path: Any, segments: list[dict[str, Any]], **fields: Any) -> Any:
    file = tmp_path / "a.flac"
    write(file, decoded(recording("two_cities.wav"))[: 9 * 16_000])
    store = tmp_path / "store"
    reference = open_store(store.as_uri()).put_path(file).ref
    heard = {"segments": segments, "language": "en", "model": "m", "word_times": "none", **fields}
    parameters = {"audio": reference, "offset": 100.0, "transcribe": "transcribe", "channel": 0}
    run = run_task(Align(), parameters, inputs={"transcribe": heard}, artifacts=store)
    assert isinstance(run.outcome, Done), run.outcome
    return run.outcome.result


def segment(start: float, end: float, text: str) -> dict[str, Any]:
    return {"start": start, "end": end, "text": text, "words": None, "confidence": 0.9}


def test_words_get_their_times_and_unknown_ones_are_marked(tmp_path: Any) -> None:
    first = segment(101.2, 104.6, "It was the best of times, it was the wurst-zzyx of times.")
    second = segment(105.0, 108.3, "It was the age of wisdom, it was the age of foolishness.")
    result = align(tmp_path, [first, second])
    assert result["word_times"] == "aligned"
    words = [word for each in result["segments"] for word in each["words"]]
    assert " ".join(word["word"] for word in words) == f"{first['text']} {second['text']}"
    assert [word["word"] for word in words if word["interpolated"]] == ["wurst-zzyx"]
    assert all(before["end"] <= after["start"] + 0.011 for before, after in pairwise(words))
    # Where there is speech, the detector of speech says, which knows no words.
    own = [each["words"] for each in result["segments"]]
    edges = [own[0][0]["start"], own[0][-1]["end"], own[1][0]["start"], own[1][-1]["end"]]
    assert edges == pytest.approx([101.2, 104.6, 105.0, 108.3], abs=0.2)
    assert [(each["start"], each["end"]) for each in result["segments"]] == [tuple(edges[:2]), tuple(edges[2:])]


def test_times_do_not_depend_on_what_the_engine_heard_before() -> None:
    """A decoder adapts to each recording: times differed by 10 ms from those of an engine that was started anew."""
    text = (
        "It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of foolishness."
    )
    samples, aligner = decoded(recording("two_cities.wav"))[: 9 * RATE], Aligner()
    first = aligner.align(samples, text.split(), lambda: None)
    aligner.align(samples // 50, ["Ever", "tried."], lambda: None)
    aligner.start_anew()
    assert aligner.align(samples, text.split(), lambda: None) == first != [None] * len(first)


def test_a_text_that_does_not_fit_is_interpolated_as_a_whole(tmp_path: Any) -> None:
    text = "Something completely different that was never read aloud " * 20
    result = align(tmp_path, [segment(101.0, 102.0, text.strip())])
    assert all(word["interpolated"] for word in result["segments"][0]["words"])


def test_what_the_model_timed_is_left_alone(tmp_path: Any) -> None:
    given = [segment(101.0, 102.0, "It was.")]
    assert align(tmp_path, given, word_times="model")["segments"] == given


def test_segments_without_a_pause_are_aligned_together() -> None:
    found = groups([segment(0, 2, "a"), segment(2, 4, "b"), segment(4.5, 6, "c"), segment(6, 60, "d")])
    assert ["".join(each["text"] for each in group) for group in found] == ["ab", "c", "d"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("Times,", "times"), ("“Don’t", "don't"), ("'tis", "tis"), ("—", ""), ("44", "44"), ("well-known.", "well-known")],
)  # fmt: skip
def test_a_word_is_looked_up_without_its_punctuation(word: str, expected: str) -> None:
    assert plain(word) == expected


TIMES = st.lists(st.one_of(st.none(), st.floats(0.01, 2.0)), min_size=1, max_size=20)


@given(TIMES)
def test_every_word_has_times_in_order_within_the_segment(lengths: list[float | None]) -> None:
    times, now = [], 0.0
    for length in lengths:
        now += 0.5
        times.append(None if length is None else (now, now + length))
        now += length or 0.0
    found = with_times(["word"] * len(times), times, 0.0, now + 1.0)
    assert [word["interpolated"] for word in found] == [each is None for each in times]
    assert all(0.0 <= word["start"] <= word["end"] <= now + 1.001 for word in found)
    assert all(before["end"] <= after["start"] + 1e-6 for before, after in pairwise(found))
