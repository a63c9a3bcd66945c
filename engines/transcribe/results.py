"""The result of a chunk: segments with the times of the whole file. Pure."""

from __future__ import annotations

from typing import Any

from .cues import cues
from .recogniser import Heard


def segments_of(heard: Heard, offset: float, *, words: bool) -> list[dict[str, Any]]:
    """`offset`: seconds of the whole file before this chunk."""
    if heard.words is None and heard.text:
        spoken = cues(heard.text, heard.window.spans)
        return [_segment(cue.start, cue.end, cue.text, offset, heard.confidence, None) for cue in spoken]
    if not heard.text:
        return []
    found = [
        {
            "word": word.text,
            "start": round(offset + word.start, 3),
            "end": round(offset + word.end, 3),
            "confidence": word.confidence,
            "interpolated": False,
        }
        for word in heard.words or ()
    ]
    window = heard.window
    return [_segment(window.start, window.end, heard.text, offset, heard.confidence, found if words else None)]


def _segment(
    start: float, end: float, text: str, offset: float, confidence: float | None, words: list[dict[str, Any]] | None
) -> dict[str, Any]:
    return {
        "start": round(offset + start, 3),
        "end": round(offset + end, 3),
        "text": text,
        "words": words or None,
        "confidence": confidence,
    }
