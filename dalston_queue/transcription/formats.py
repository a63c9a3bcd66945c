"""A transcript as text, subtitles or JSON. Pure functions of transcript.json, for the API and the pages.

{"text", "language", "duration", "model", "word_times", "channels",
 "segments": [{"id", "start", "end", "text", "channel", "speaker", "confidence", "words": […] | null}]}
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Transcript = Mapping[str, Any]
_MIN_CUE_S = 0.001
_BLANK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write a transcript."""

    content_type: str
    write: Callable[[Transcript], str]


def text(transcript: Transcript) -> str:
    """One line for each segment; with several channels or speakers each line names its own."""
    return "".join(f"{_whose(segment, transcript)}{line}\n" for segment, line in _lines(transcript))


def srt(transcript: Transcript) -> str:
    cues = [
        f"{number}\n{_time(start, ',')} --> {_time(end, ',')}\n{_whose(segment, transcript)}{line}\n"
        for number, (segment, line, start, end) in enumerate(_cues(transcript), 1)
    ]
    return "\n".join(cues)


def vtt(transcript: Transcript) -> str:
    cues = [
        f"\n{_time(start, '.')} --> {_time(end, '.')}\n{_voice(segment, transcript)}{html.escape(line, quote=False)}\n"
        for segment, line, start, end in _cues(transcript)
    ]
    return "WEBVTT\n" + "".join(cues)


def json(transcript: Transcript) -> str:
    return msgspec.json.encode(transcript).decode()


def openai_json(transcript: Transcript) -> dict[str, Any]:
    return {"text": transcript["text"]}


def openai_verbose_json(transcript: Transcript, *, words: bool = False, segments: bool = True) -> dict[str, Any]:
    """As OpenAI's clients read it. What our models don't measure is null or zero there, too."""
    found: dict[str, Any] = {
        "task": "transcribe",
        "language": transcript.get("language") or "",
        "duration": transcript["duration"],
        "text": transcript["text"],
    }
    if segments:
        found["segments"] = [_openai_segment(segment) for segment in transcript["segments"]]
    if words:
        spoken = (word for segment in transcript["segments"] for word in segment.get("words") or ())
        found["words"] = [{"word": word["word"], "start": word["start"], "end": word["end"]} for word in spoken]
    return found


FORMATS = {
    "txt": Format("text/plain; charset=utf-8", text),
    "srt": Format("application/x-subrip; charset=utf-8", srt),
    "vtt": Format("text/vtt; charset=utf-8", vtt),
    "json": Format("application/json", json),
}


def _openai_segment(segment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": segment["id"],
        "seek": 0,
        "start": segment["start"],
        "end": segment["end"],
        "text": segment["text"],
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": 0.0,
        "compression_ratio": 0.0,
        "no_speech_prob": 0.0,
    }


def _lines(transcript: Transcript) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Segments with their text on one line: an empty line would end a cue, and an arrow would begin one."""
    for segment in transcript["segments"]:
        line = _BLANK.sub(" ", str(segment["text"])).strip()
        if line:
            yield segment, line


def _cues(transcript: Transcript) -> Iterator[tuple[Mapping[str, Any], str, float, float]]:
    for segment, line in _lines(transcript):
        start = max(0.0, float(segment["start"]))
        yield segment, line.replace("-->", "→"), start, max(float(segment["end"]), start + _MIN_CUE_S)


def _speaker(segment: Mapping[str, Any], transcript: Transcript) -> str:
    if segment.get("speaker"):
        return _BLANK.sub(" ", str(segment["speaker"]))
    if transcript.get("channels", 1) > 1:
        return f"Channel {segment.get('channel', 0) + 1}"
    return ""


def _whose(segment: Mapping[str, Any], transcript: Transcript) -> str:
    speaker = _speaker(segment, transcript)
    return f"{speaker}: " if speaker else ""


def _voice(segment: Mapping[str, Any], transcript: Transcript) -> str:
    speaker = _speaker(segment, transcript)
    return f"<v {html.escape(speaker, quote=False)}>" if speaker else ""


def _time(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{mark}{milliseconds % 1000:03}"
