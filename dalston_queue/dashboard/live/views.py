"""The view of a page that has only fragments. A page that needs more has a view of its own."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dalston_queue.dashboard.live.fragments import Fragment, by_name
from dalston_queue.polling import Gone


def live_page(fragments: Callable[..., list[Fragment]], template: str) -> Callable[..., HttpResponse]:
    """fragments: called with the names in the URL, as by its WebSocket."""

    @require_safe
    @never_cache
    @login_required
    def view(request: HttpRequest, **names: object) -> HttpResponse:
        try:
            shown = by_name(fragments(**names))
        except Gone as error:
            raise Http404(str(error)) from None
        return render(request, f"dashboard/{template}.html", shown)

    return view
