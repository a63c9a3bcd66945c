"""The pages. Each is a template around fragments; the socket keeps the fragments up to date."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.dashboard.fragments import current_fragments
from dalston_queue.dashboard.pieces import pieces


@require_safe
@never_cache
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    context = {**pieces(current_fragments()), "api_url": request.build_absolute_uri("/api/v1")}
    return render(request, "dashboard/overview.html", context)


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """For pages that name no icon of their own: the admin, and bare API answers."""
    return redirect(static("dalston/icon.svg"))
