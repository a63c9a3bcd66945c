"""The overview: a template around fragments, which the socket keeps up to date."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.overview.render import current_fragments


@require_safe
@never_cache
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    context = {**by_name(current_fragments()), "api_url": request.build_absolute_uri("/api/v1")}
    return render(request, "dashboard/overview/page.html", context)
