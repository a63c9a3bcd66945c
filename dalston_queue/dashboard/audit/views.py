"""The audit page, and its exports as CSV and JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from channels.db import database_sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from dalston_queue.audit.chain import head
from dalston_queue.audit.trail import as_csv, as_json_lines, pages
from dalston_queue.dashboard.audit.read import AuditView, offered, read_audit, wanted_by
from dalston_queue.dashboard.audit.render import fragments_of
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import BadQuery, address, flat
from dalston_queue.dashboard.security.roles import page_view

_KINDS = {"csv": (as_csv, "text/csv; charset=utf-8"), "jsonl": (as_json_lines, "application/jsonl; charset=utf-8")}


@page_view
def audit(request: HttpRequest) -> HttpResponse:
    query, problem = flat(request.GET), ""
    try:
        view = read_audit(query)
    except BadQuery as error:
        view, problem = AuditView(timezone.now(), (), None), str(error)
    actors, kinds = offered()
    context = {
        **by_name(fragments_of(view, query)),
        "query": query,
        "problem": problem,
        "actors": actors,
        "kinds": kinds,
        "head": head(),
        "address": address(query, before=None),
        "socket_query": address(query),
    }
    return render(request, "dashboard/audit/page.html", context, status=400 if problem else 200)


@page_view
def export(request: HttpRequest, kind: str) -> HttpResponse | StreamingHttpResponse:
    if kind not in _KINDS:
        raise Http404(f"there is no export as {kind}")
    write, content_type = _KINDS[kind]
    try:
        text = write(pages(wanted_by(flat(request.GET))))
    except BadQuery as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain; charset=utf-8")
    name = f"audit-{timezone.now():%Y%m%dT%H%M%SZ}.{kind}"
    content = _on_threads(text) if isinstance(request, ASGIRequest) else text
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(content, content_type=content_type, headers=headers)


async def _on_threads(text: Iterator[str]) -> AsyncIterator[str]:
    """Page by page: Django would put all of a plain iterator into memory before it sends the first byte."""
    step = database_sync_to_async(_next)  # releases the connection after each page: the client may be slow
    while piece := await step(text):
        yield piece


def _next(text: Iterator[str]) -> str:
    return next(text, "")
