"""The page of one job; cancel."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from dalston_queue.accounts.roles import may_operate, person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.job.read import read_job
from dalston_queue.dashboard.job.render import fragments_of
from dalston_queue.dashboard.live.fragments import by_name
from dalston_queue.dashboard.parts.request import reason_of
from dalston_queue.dashboard.security.roles import operator_action, page_view
from dalston_queue.jobs.operator.cancel import Cancellation, cancel_job, cancel_message
from dalston_queue.models import Job


@page_view
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    view = read_job(job_id)
    if view is None:
        raise Http404(f"there is no job {job_id}")
    return render(
        request, "dashboard/job/page.html", {**by_name(fragments_of(view, may_operate(request.user))), "view": view}
    )


@operator_action
def cancel(request: HttpRequest, job_id: UUID) -> HttpResponse:
    reason = reason_of(request)
    if not reason:
        messages.error(request, "Nothing was changed: a reason is needed.")
        return redirect("dashboard:job", job_id=job_id)
    was = Job.objects.filter(pk=job_id).values_list("status", flat=True).first()
    if was is None:
        raise Http404(f"there is no job {job_id}")
    before = {"status": was}
    with audited("job.cancel", str(job_id), **person(request), reason=reason, before=before) as row:
        outcome = cancel_job(job_id, timezone.now(), why=cancel_message(person(request)["actor"], reason))
        row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_notified": outcome.sent}
    if not outcome.found:
        raise Http404(f"there is no job {job_id}")
    (messages.warning if outcome.already_over else messages.success)(request, cancellation_words(outcome))
    return redirect("dashboard:job", job_id=job_id)


def cancellation_words(outcome: Cancellation) -> str:
    if outcome.already_over:
        return f"Nothing was changed: the job is {outcome.status} already."
    if outcome.sent:
        return "Cancelling. The engines were asked to stop."
    if not outcome.reached:
        return "Cancelling. Redis does not answer; the engines are asked to stop when it does."
    return (
        "Cancelling. The running tasks have just ended." if outcome.was_running else "Cancelled. No task was running."
    )
