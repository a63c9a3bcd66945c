"""transcript.json as the stage `merge` stores it, checked: a job of another kind may have taken the name."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

MAX_SECONDS = 1e8
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Small = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class NotATranscript(Exception):
    """The file is something else."""


class Word(msgspec.Struct):
    word: str
    start: Seconds
    end: Seconds
    confidence: float | None = None
    interpolated: bool = False


class Segment(msgspec.Struct):
    id: Small
    start: Seconds
    end: Seconds
    text: str
    channel: Small = 0
    speaker: str | None = None
    confidence: float | None = None
    words: list[Word] | None = None


class Document(msgspec.Struct):
    text: str
    duration: Seconds
    segments: list[Segment]
    language: str | None = None
    model: str | None = None
    word_times: str = "none"
    channels: Small = 1


def read(content: bytes) -> dict[str, Any]:
    """Raises NotATranscript."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(msgspec.json.decode(content, type=Document))
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise NotATranscript from None
    return found
