"""The transcript of a recording as HTML: a line per segment, its words with their times.

It is part of the page only, never of the live updates: an hour of speech is a megabyte of HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dalston_queue.artifacts import ArtifactError, ArtifactMissing
from dalston_queue.dashboard.parts.words import clock
from dalston_queue.jobs.artifacts import the_store

log = structlog.get_logger(__name__)

MAX_WORDS = 60_000
"""With an element each; about seven hours of speech. Later segments are shown without."""
MAX_SEGMENTS = 20_000
MAX_BYTES = 64 << 20


class NotReadable(Exception):
    """Why the transcript is not shown, for the page."""


@dataclass(frozen=True, slots=True)
class Shown:
    html: SafeString
    has_words: bool
    has_guessed: bool
    is_cut: bool


def read_transcript(ref: str) -> Shown | None:
    """From the artifact store; None if there is no speech. Raises NotReadable."""
    try:
        content = the_store().read(ref, MAX_BYTES + 1)
    except ArtifactMissing:
        raise NotReadable("The transcript is not in the artifact store any more.") from None
    except ArtifactError as error:
        log.warning("transcript.not_read", ref=ref[:80], error=str(error))
        raise NotReadable("The artifact store does not answer: reload the page in a while.") from None
    if len(content) > MAX_BYTES:
        raise NotReadable("This transcript is too long for a page; the downloads have it.")
    try:
        return shown(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise NotReadable("The transcript cannot be read: it is not as the stage merge writes it.") from None


def shown(transcript: Mapping[str, Any]) -> Shown | None:
    """None if there is no speech."""
    segments = transcript["segments"]
    if not segments:
        return None
    several, left = (transcript.get("channels") or 1) > 1, MAX_WORDS
    lines, has_words, has_guessed = [], False, False
    for number, segment in enumerate(segments[:MAX_SEGMENTS]):
        words = segment.get("words") or ()
        words = words if len(words) <= left else ()
        left -= len(words)
        has_words |= bool(words)
        has_guessed |= any(word.get("interpolated") for word in words)
        lines.append(_segment(number, segment, words, _who(segment, several=several), transcript.get("language")))
    html = format_html_join("", "{}", ((line,) for line in lines))
    return Shown(html, has_words, has_guessed, len(segments) > MAX_SEGMENTS)


def _segment(
    number: int, segment: Mapping[str, Any], words: Sequence[Mapping[str, Any]], who: str, language: str | None
) -> SafeString:
    start = float(segment["start"])
    text = (
        format_html_join(
            " ",
            '<span class="w{}" data-at="{}">{}</span>',
            ((" guessed" if word.get("interpolated") else "", _at(word["start"]), word["word"]) for word in words),
        )
        if words
        else format_html('<span class="w" data-at="{}">{}</span>', _at(start), segment["text"])
    )
    return format_html(
        '<div class="segment" id="segment-{}"><a class="at" href="#t={}" aria-label="Play from {}">{}</a>{}'
        '<p dir="auto"{}>{}</p></div>',
        number,
        _at(start),
        clock(start),
        clock(start),
        format_html('<span class="tag">{}</span>', who) if who else "",
        format_html(' lang="{}"', language) if language else "",
        text,
    )


def _who(segment: Mapping[str, Any], *, several: bool) -> str:
    if segment.get("speaker"):
        return str(segment["speaker"])
    return f"channel {segment['channel'] + 1}" if several else ""


def _at(seconds: float) -> str:
    return f"{float(seconds):.2f}"
