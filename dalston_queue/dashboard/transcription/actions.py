"""The buttons of a transcription's page: cancel while it runs; delete it with its recording and transcript after."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.job.views import cancellation_words
from dalston_queue.dashboard.parts.request import reason_of
from dalston_queue.dashboard.security.roles import operator_action
from dalston_queue.dashboard.transcription.read import read_transcription
from dalston_queue.jobs.operator.cancel import cancel_job, cancel_message
from dalston_queue.jobs.operator.delete import delete_over


@operator_action
def end(request: HttpRequest, transcription_id: UUID, verb: str) -> HttpResponse:
    """The form names cancel or delete: of a page that is a moment old, the other one would be a surprise."""
    view, reason = read_transcription(transcription_id), reason_of(request)
    if view is None or verb not in {"cancel", "delete"}:
        raise Http404(f"there is no transcription {transcription_id}")
    it = view.transcription
    if not reason:
        messages.error(request, f"Nothing was changed: a reason is needed to {verb} a transcription.")
    elif verb == "cancel":
        _cancel(request, transcription_id, it.status, reason)
    elif not it.is_over:
        messages.warning(request, f"Nothing was changed: it is {it.status} again. Cancel it first.")
    elif _delete(request, transcription_id, it.filename, it.status, reason):
        messages.success(request, f"{it.filename} is deleted, with its transcript.")
        return redirect("dashboard:transcriptions")
    return redirect("dashboard:transcription", transcription_id=transcription_id)


def _cancel(request: HttpRequest, job_id: UUID, was: str, reason: str) -> None:
    with audited("job.cancel", str(job_id), **person(request), reason=reason, before={"status": was}) as row:
        outcome = cancel_job(job_id, timezone.now(), why=cancel_message(person(request)["actor"], reason))
        row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_notified": outcome.sent}
    (messages.warning if outcome.already_over else messages.success)(request, cancellation_words(outcome))


def _delete(request: HttpRequest, job_id: UUID, filename: str, was: str, reason: str) -> bool:
    before = {"status": was, "filename": filename}
    with audited("transcription.delete", str(job_id), **person(request), reason=reason, before=before) as row:
        deleted = delete_over(job_id)
        row.after = {"deleted": deleted}
    if not deleted:
        messages.warning(request, "Nothing was changed: it was replayed or deleted meanwhile.")
    return deleted
