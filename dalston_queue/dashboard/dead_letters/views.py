"""The pages of dead letters: groups, the dead letters of a group, and one."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from dalston_queue.accounts.roles import may_operate
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.dashboard.dead_letters.query import SEARCH_LIMIT, is_search
from dalston_queue.dashboard.dead_letters.read import filter_by, is_list, nothing, read_dead_letters
from dalston_queue.dashboard.dead_letters.read_one import read_content, read_dead_letter
from dalston_queue.dashboard.dead_letters.render import dead_letter_fragments_of, fragments_of
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import BadQuery, address, flat
from dalston_queue.dashboard.security.roles import page_view


@page_view
def dead_letters(request: HttpRequest) -> HttpResponse:
    query, problem, searched = flat(request.GET), "", False
    try:
        view = read_dead_letters(query)
        searched = is_search(filter_by(query))
    except BadQuery as error:
        view, problem = nothing(), str(error)
    context = {
        **by_name(fragments_of(view, query, may_operate(request.user))),
        "query": query,
        "problem": problem,
        "causes": [cause.value for cause in Cause],
        "is_list": is_list(query) and not problem,
        "searched": SEARCH_LIMIT if searched else None,
        "socket_query": address(query),
        "filter_query": address(query, after=None, each=None),
        "groups_address": address(query, fingerprint=None, after=None, each=None),
        "each_address": address(query, each=1),
    }
    return render(request, "dashboard/dead_letters/page.html", context, status=400 if problem else 200)


@page_view
def dead_letter(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    view = read_dead_letter(dead_letter_id)
    if view is None:
        raise Http404(f"there is no dead letter {dead_letter_id}")
    shown = dead_letter_fragments_of(view, may_operate(request.user))
    context = {**by_name(shown), "view": view, "content": read_content(dead_letter_id)}
    return render(request, "dashboard/dead_letters/one.html", context)
