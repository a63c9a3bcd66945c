"""The pages. Each is a template around fragments; the socket keeps the fragments up to date."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from dalston_queue.audit import audited
from dalston_queue.dashboard.board import Fragment
from dalston_queue.dashboard.fragments import current_fragments
from dalston_queue.dashboard.job_fragments import fragments_of
from dalston_queue.dashboard.job_view import read_job
from dalston_queue.dashboard.roles import operator_required
from dalston_queue.jobs.cancel import Cancellation, cancel_job
from dalston_queue.roles import person


@require_safe
@never_cache
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    context = {**_pieces(current_fragments()), "api_url": request.build_absolute_uri("/api/v1")}
    return render(request, "dashboard/overview.html", context)


@require_safe
@never_cache
@login_required
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    view = read_job(job_id)
    if view is None:
        raise Http404(f"there is no job {job_id}")
    return render(request, "dashboard/job.html", {**_pieces(fragments_of(view)), "view": view})


@require_POST
@operator_required
def cancel(request: HttpRequest, job_id: UUID) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()[:500]
    with audited("job.cancel", str(job_id), **person(request), reason=reason) as row:
        outcome = cancel_job(job_id, timezone.now(), why=reason or "cancelled on the dashboard")
        row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_told": outcome.told}
    if not outcome.found:
        raise Http404(f"there is no job {job_id}")
    messages.info(request, _words(outcome))
    return redirect("dashboard:job", job_id=job_id)


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """For pages that name no icon of their own: the admin, and bare API answers."""
    return redirect(static("dalston/icon.svg"))


def _pieces(fragments: list[Fragment]) -> dict[str, SafeString]:
    # Rendered by our own partials, which escape what they show.
    return {fragment.id: mark_safe(fragment.html) for fragment in fragments}  # noqa: S308


def _words(outcome: Cancellation) -> str:
    if outcome.already_over:
        return f"Nothing was changed: the job is {outcome.status} already."
    if not outcome.was_running:
        return "Cancelled. Nothing of it was running."
    if outcome.told:
        return "Cancelling. The engines were told to stop."
    return "Cancelling. Redis does not answer; the engines are told as soon as it does."
