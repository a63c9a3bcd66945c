"""Segments of chunks and channels become one transcript in the order of time."""

from typing import Any

import msgspec

from engines.merge.engine import Merge
from engines.merge.joining import summary, transcript
from engines.sdk import Done
from engines.sdk.testing import run_task


def segment(start: float, text: str, words: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"start": start, "end": start + 1.0, "text": text, "confidence": 0.5, "words": words}


def result(*segments: dict[str, Any], word_times: str = "none", model: str = "m") -> dict[str, Any]:
    return {"segments": list(segments), "language": "en", "model": model, "word_times": word_times}


def part(stage: str, channel: int = 0, align: str | None = None) -> dict[str, Any]:
    return {"transcribe": stage, "align": align, "channel": channel}


def test_channels_are_interleaved_by_time_a_line_each() -> None:
    results = {"a": result(segment(0.0, "Hello."), segment(4.0, "Fine.")), "b": result(segment(2.0, "How are you?"))}
    joined = transcript([part("a"), part("b", 1)], results, duration=5.0, channels=2)
    assert joined["text"] == "Hello.\nHow are you?\nFine."
    assert [(each["id"], each["channel"]) for each in joined["segments"]] == [(0, 0), (1, 1), (2, 0)]


def test_the_words_of_align_win_and_without_it_those_of_transcribe_stay() -> None:
    words = [{"word": "Hello.", "start": 0.1, "end": 0.4, "confidence": None, "interpolated": False}]
    results = {
        "a": result(segment(0.0, "Hello.")),
        "align_a": result(segment(0.0, "Hello.", words), word_times="aligned"),
        "b": result(segment(9.0, "Bye."), model="n"),
    }
    joined = transcript([part("a", align="align_a"), part("b", align="align_b")], results, duration=9.5, channels=1)
    assert [each["words"] for each in joined["segments"]] == [words, None]
    assert (joined["text"], joined["word_times"], joined["model"]) == ("Hello. Bye.", "aligned", "m, n")


def test_a_silent_file_has_an_empty_transcript() -> None:
    joined = transcript([part("a")], {"a": result()}, duration=5.0, channels=1)
    assert (joined["text"], joined["segments"], joined["word_times"]) == ("", [], "none")


def test_the_result_names_the_stored_transcript() -> None:
    parameters = {"parts": [part("transcribe")], "duration": 2.0, "channels": 1, "language": "en"}
    long = "word " * 200
    run = run_task(Merge(), parameters, inputs={"transcribe": result(segment(0.5, long.strip()))})
    assert isinstance(run.outcome, Done)
    found = run.outcome.result
    document = msgspec.json.decode(run.store.read(found["transcript"]))
    assert document["segments"][0]["speaker"] is None
    assert found == summary(document, found["transcript"])
    assert (found["words"], found["segments"], len(found["preview"])) == (200, 1, 300)
