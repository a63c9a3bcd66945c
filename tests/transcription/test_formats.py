"""Formats: every transcript gives subtitles that independent parsers read back, whatever is in its text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from dalston_queue.transcription.formats import FORMATS, openai_verbose_json


def transcript(*segments: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = [{"id": number, "channel": 0, "speaker": None, **each} for number, each in enumerate(segments)]
    text = " ".join(each["text"] for each in numbered)
    return {"text": text, "language": "en", "duration": 9.0, "model": "m", "channels": 1, "segments": numbered, **more}


HELLO = transcript(
    {"start": 0.0, "end": 1.5, "text": "hello there"}, {"start": 3661.0004, "end": 3662.9996, "text": "and good-bye"}
)


def written(kind: str, found: dict[str, Any]) -> str:
    return FORMATS[kind].write(found)


def test_srt() -> None:
    assert written("srt", HELLO) == (
        "1\n00:00:00,000 --> 00:00:01,500\nhello there\n\n2\n01:01:01,000 --> 01:01:03,000\nand good-bye\n"
    )


def test_vtt() -> None:
    assert written("vtt", HELLO) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nhello there\n\n01:01:01.000 --> 01:01:03.000\nand good-bye\n"
    )


def test_txt_and_json() -> None:
    assert written("txt", HELLO) == "hello there\nand good-bye\n"
    assert msgspec.json.decode(written("json", HELLO)) == HELLO


def test_channels_and_speakers_are_named_when_there_are_several() -> None:
    found = transcript(
        {"start": 0.0, "end": 1.0, "text": "hi", "channel": 0},
        {"start": 1.0, "end": 2.0, "text": "ho", "channel": 1, "speaker": "Ann <3"},
        channels=2,
    )
    assert written("txt", found) == "Channel 1: hi\nAnn <3: ho\n"
    assert "<v Channel 1>hi" in written("vtt", found) and "<v Ann &lt;3>ho" in written("vtt", found)


def test_without_speech_each_format_is_empty_and_valid() -> None:
    nothing = transcript()
    assert (written("txt", nothing), written("srt", nothing), written("vtt", nothing)) == ("", "", "WEBVTT\n")
    assert list(srt.parse(written("srt", nothing))) == []


TIMES = st.floats(min_value=0, max_value=40_000)
TEXTS = st.text(max_size=60) | st.sampled_from(["-->", "1\n\n2", "<b>bold", "a & b", "NOTE x", "WEBVTT", "00:00 --> 1"])


@given(st.lists(st.tuples(TIMES, TIMES, TEXTS), max_size=8))
def test_whatever_was_heard_independent_parsers_read_it_back(heard: list[tuple[float, float, str]]) -> None:
    found = transcript(*({"start": start, "end": end, "text": text} for start, end, text in heard))
    kept = [(start, " ".join(text.split()).replace("-->", "→")) for start, _, text in heard if text.split()]
    cues = list(srt.parse(written("srt", found), ignore_errors=False))
    assert [cue.content for cue in cues] == [text for _, text in kept]
    assert all(cue.end > cue.start for cue in cues)
    assert [cue.start.total_seconds() for cue in cues] == [pytest.approx(start, abs=0.001) for start, _ in kept]
    captions = webvtt.from_string(written("vtt", found)).captions
    assert len(captions) == len(kept)


def test_openais_verbose_form_has_words_only_when_they_were_asked_for() -> None:
    words = [{"word": "hi", "start": 0.0, "end": 0.5, "confidence": 1.0}]
    found = transcript(
        {"start": 0.0, "end": 1.0, "text": "hi", "words": words}, {"start": 1.0, "end": 2.0, "text": "x"}
    )
    assert "words" not in openai_verbose_json(found)
    assert openai_verbose_json(found, words=True)["words"] == [{"word": "hi", "start": 0.0, "end": 0.5}]
    assert "segments" not in openai_verbose_json(found, words=True, segments=False)
