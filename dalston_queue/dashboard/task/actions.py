"""Operator actions on one task that is waiting or running: cancel, requeue, dead-letter.

Each form names what the operator saw (the attempt, the delivery). A task that has moved on since is left alone, and the
second of two operators who press the same button reads that the first was faster.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.dashboard.parts.request import back_to_page, reason_of
from dalston_queue.dashboard.security.roles import operator_action
from dalston_queue.jobs.operator.cancel import cancel_message, cancel_task
from dalston_queue.jobs.operator.task import DeadLetterOutcome, dead_letter, requeue_task
from dalston_queue.models import OperatorAction, Task

Result = tuple[bool, str]
"""Whether something was changed, and the message for the operator."""
Action = Callable[[HttpRequest, Task, str, OperatorAction], Result]


@operator_action
def task_action(request: HttpRequest, task_id: UUID, action: str) -> HttpResponse:
    task = Task.objects.filter(pk=task_id).only("id", "queue", "status", "attempt", "assigned_worker_id").first()
    if task is None or action not in ACTIONS:
        raise Http404(f"there is no task {task_id}")
    reason = reason_of(request)
    if not reason:
        messages.error(request, "Nothing was changed: a reason is needed.")
        return _back(request, task)
    audit_name, perform = ACTIONS[action]
    before = {"status": task.status, "attempt": task.attempt, "engine": task.assigned_worker_id}
    try:
        with audited(audit_name, str(task_id), **person(request), reason=reason, before=before) as row:
            changed, message = perform(request, task, reason, row)
    except BrokerError:
        changed, message = False, "Redis does not answer, so nothing was changed. Try again when it does."
    (messages.success if changed else messages.warning)(request, message)
    return _back(request, task)


def _cancel(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Result:
    done = cancel_task(task.id, timezone.now(), why=cancel_message(_name(request), reason))
    row.after = {"status": done.status, "was_running": done.was_running, "engine_notified": done.sent}
    if done.already_over:
        return False, f"Nothing was changed: the task is {_words(done.status)} already."
    if done.sent:
        return True, "Cancelling: its engine was asked to stop."
    if not done.reached:
        return True, "Cancelling, as soon as Redis answers."
    return True, "Cancelling, but it has just ended." if done.was_running else "Cancelled before it ran."


def _requeue(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Result:
    entry_id = request.POST.get("entry", "")[:64]
    done = requeue_task(task.id, actor=_name(request), why=reason, entry_id=entry_id)
    row.after = {"outcome": done.outcome, "status": done.status}
    messages_by_outcome = {
        Requeued.RETURNED: "Requeued: it is first in its queue, and no attempt was counted.",
        Requeued.WAITING: "Nothing was changed: it is waiting already. Another operator was faster.",
        Requeued.CHANGED: "Nothing was changed: another engine runs it now.",
        Requeued.ABSENT: f"Nothing was changed: no engine runs it. It is {_words(done.status)}, or has just ended.",
    }
    return done.outcome is Requeued.RETURNED, messages_by_outcome[done.outcome]


def _dead_letter(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Result:
    seen = request.POST.get("attempt", "")
    attempt = int(seen) if seen.isdecimal() and len(seen) < 10 else None
    done = dead_letter(task.id, timezone.now(), actor=_name(request), why=reason, attempt=attempt)
    row.after = {"outcome": done.outcome, "status": done.status}
    messages_by_outcome = {
        DeadLetterOutcome.ENDED: "Dead-lettered." if done.status == "dead_letter" else "Failed: it is optional.",
        DeadLetterOutcome.TAKEN: "Dead-lettering: it was taken from its engine.",
        DeadLetterOutcome.OVER: f"Nothing was changed: it is {_words(done.status)} already, or has just ended.",
        DeadLetterOutcome.CHANGED: "Nothing was changed: it is at another attempt now.",
        DeadLetterOutcome.NOT_QUEUED: f"Nothing was changed: it is {_words(done.status)}. Cancel it instead.",
    }
    return done.outcome in {DeadLetterOutcome.ENDED, DeadLetterOutcome.TAKEN}, messages_by_outcome[done.outcome]


ACTIONS: dict[str, tuple[str, Action]] = {
    "cancel": ("task.cancel", _cancel),
    "requeue": ("task.requeue", _requeue),
    "dead-letter": ("task.dead_letter", _dead_letter),
}


def _name(request: HttpRequest) -> str:
    return person(request)["actor"]


def _words(status: str) -> str:
    return status.replace("_", " ")


def _back(request: HttpRequest, task: Task) -> HttpResponse:
    return back_to_page(request, below="/", otherwise=reverse("dashboard:queue", args=[task.queue]))
