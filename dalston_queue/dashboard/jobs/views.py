"""The page of jobs: a search whose fields are its query string."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from dalston_queue.dashboard.jobs.read import FIELDS, JobsReader, offered_tokens
from dalston_queue.dashboard.jobs.render import fragments_of
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import address, known_fields
from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.jobs.lifecycle.states import JobStatus


@page_view
def jobs(request: HttpRequest) -> HttpResponse:
    query = known_fields(request.GET, FIELDS)
    view = JobsReader(query)()
    if list(query) == ["id"] and len(view.rows) == 1:
        return redirect("dashboard:job", job_id=view.rows[0].id)
    context = {
        **by_name(fragments_of(view, query)),
        "query": query,
        "statuses": list(JobStatus),
        "tokens": offered_tokens(),
        "address": address(query),
    }
    return render(request, "dashboard/jobs/page.html", context, status=400 if view.problem and not view.rows else 200)
