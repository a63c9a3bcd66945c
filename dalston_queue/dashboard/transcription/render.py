"""Fragments of a transcription's page, the same for the page and its WebSocket: what changes while its job runs."""

from __future__ import annotations

from uuid import UUID

from dalston_queue.dashboard.live.fragments import Fragment, as_of, render
from dalston_queue.dashboard.parts.words import TASK_TONES, clock
from dalston_queue.dashboard.transcription.read import TranscriptionView, read_transcription
from dalston_queue.polling import Gone


def transcription_fragments(transcription_id: UUID) -> list[Fragment]:
    """Raises Gone if there is none: it was deleted, or removed with the old history."""
    view = read_transcription(transcription_id)
    if view is None:
        raise Gone(f"there is no transcription {transcription_id}")
    return fragments_of(view)


def fragments_of(view: TranscriptionView) -> list[Fragment]:
    found = view.transcription
    tone = TASK_TONES.get(found.status, "")
    length = "" if found.duration is None else clock(found.duration)
    return [
        as_of(view.at),
        Fragment("transcription", render("transcription/_head", view=view, it=found, tone=tone, length=length)),
        Fragment("doing", render("transcription/_doing", view=view, it=found)),
    ]
