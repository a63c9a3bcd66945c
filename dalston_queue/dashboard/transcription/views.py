"""The page of one transcription."""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.dashboard.transcription import waveform
from dalston_queue.dashboard.transcription.read import read_transcription
from dalston_queue.dashboard.transcription.render import fragments_of
from dalston_queue.dashboard.transcription.transcript import NotReadable, Shown, read_transcript

FORMATS = ("txt", "srt", "vtt", "json")


@page_view
def transcription(request: HttpRequest, transcription_id: UUID) -> HttpResponse:
    view = read_transcription(transcription_id)
    if view is None:
        raise Http404(f"there is no transcription {transcription_id}")
    found: Shown | None = None
    problem = ""
    if view.transcript is not None:
        try:
            found = read_transcript(view.transcript)
        except NotReadable as error:
            problem = str(error)
    it = view.transcription
    context = {
        **by_name(fragments_of(view)),
        "view": view,
        "it": it,
        "found": found,
        "problem": problem,
        "wave": waveform.draw(view.peaks) if view.peaks else "",
        "length_s": f"{it.duration or 0:.2f}",
        "formats": FORMATS,
        "stem": PurePath(it.filename).stem or "transcript",
    }
    return render(request, "dashboard/transcription/page.html", context)
