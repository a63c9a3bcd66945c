"""The page of transcriptions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import address, known_fields
from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.dashboard.transcriptions.read import FIELDS, read_transcriptions
from dalston_queue.dashboard.transcriptions.render import fragments_of
from dalston_queue.transcription.speech_models import MODELS


@page_view
def transcriptions(request: HttpRequest) -> HttpResponse:
    query = known_fields(request.GET, FIELDS)
    view = read_transcriptions(query)
    context = {**by_name(fragments_of(view, query)), "address": address(query), "models": MODELS.values()}
    return render(request, "dashboard/transcriptions/page.html", context, status=400 if view.problem else 200)
