"""Joining: segments of all chunks and channels in the order of time. Pure.

Chunks are cut in silence and their times are those of the whole file, so nothing is repeated and nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PREVIEW = 300  # characters


def transcript(
    parts: Sequence[Mapping[str, Any]], results: Mapping[str, Any], *, duration: float, channels: int
) -> dict[str, Any]:
    """`parts`: a channel, its stage of transcribe, and that of align or None, in the order of the plan. A failed align
    has no result: then the words of transcribe are taken."""
    used: list[tuple[int, Mapping[str, Any]]] = []
    for part in parts:
        aligned = results.get(part["align"]) if part["align"] else None
        used.append((part["channel"], aligned or results[part["transcribe"]]))
    found = [
        {
            "start": segment["start"],
            "end": segment["end"],
            "text": segment["text"],
            "channel": channel,
            "speaker": None,
            "confidence": segment["confidence"],
            "words": segment["words"],
        }
        for channel, result in used
        for segment in result["segments"]
    ]
    found.sort(key=lambda segment: (segment["start"], segment["channel"], segment["end"]))
    separator = "\n" if channels > 1 else " "  # a speaker is a channel: a line each
    return {
        "text": separator.join(segment["text"] for segment in found),
        "language": _one(result["language"] for _, result in used),
        "duration": duration,
        "model": _one(result["model"] for _, result in used),
        "word_times": _word_times([result["word_times"] for _, result in used]),
        "channels": channels,
        "segments": [{"id": number, **segment} for number, segment in enumerate(found)],
    }


def summary(document: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """The result of the stage: what a list of transcripts shows, and where the transcript is."""
    return {
        "transcript": reference,
        "preview": document["text"][:PREVIEW],
        "duration": document["duration"],
        "language": document["language"],
        "model": document["model"],
        "segments": len(document["segments"]),
        "words": len(document["text"].split()),
        "channels": document["channels"],
    }


def _one(values: Iterable[str | None]) -> str | None:
    """The value, or all of them: with `auto` the chunks may have had different engines."""
    return ", ".join(sorted({value for value in values if value})) or None


def _word_times(kinds: Sequence[str]) -> str:
    return next((kind for kind in ("aligned", "model") if kind in kinds), "none")
