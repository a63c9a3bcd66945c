"""What an operator does to one task that is in a stream: cancel it, hand it back, or make it a dead letter.

Each names what the operator saw (the attempt, the delivery), so that a task which has moved on is left alone and the
second of two presses is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from dalston_queue.accounts.roles import Person, person
from dalston_queue.audit.record import audited
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.operations.requeue import Requeued
from dalston_queue.dashboard.parts.request import back_to_page, reason_of
from dalston_queue.dashboard.security.roles import operator_required
from dalston_queue.jobs.operator.cancel import cancel_message, cancel_task
from dalston_queue.jobs.operator.task import DeadLetterOutcome, dead_letter, requeue_task
from dalston_queue.models import OperatorAction, Task

Done = tuple[bool, str]
"""Whether something was changed, and what is said of it."""
Act = Callable[[HttpRequest, Task, str, OperatorAction], Done]


@require_POST
@operator_required
def act_on_task(request: HttpRequest, task_id: UUID, act: str) -> HttpResponse:
    task = Task.objects.filter(pk=task_id).only("id", "queue", "status", "attempt", "assigned_worker_id").first()
    if task is None or act not in ACTS:
        raise Http404(f"there is no task {task_id}")
    reason = reason_of(request)
    if not reason:
        messages.error(request, "Nothing was changed: a reason is needed.")
        return _back(request, task)
    action, perform = ACTS[act]
    before = {"status": task.status, "attempt": task.attempt, "engine": task.assigned_worker_id}
    try:
        with audited(action, str(task_id), **person(request), reason=reason, before=before) as row:
            changed, said = perform(request, task, reason, row)
    except BrokerError:
        changed, said = False, "Redis does not answer, so nothing was changed. Try again when it does."
    (messages.success if changed else messages.warning)(request, said)
    return _back(request, task)


def _cancel(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Done:
    done = cancel_task(task.id, timezone.now(), why=cancel_message(_name(request), reason))
    row.after = {"status": done.status, "was_running": done.was_running, "engine_notified": done.sent}
    if done.already_over:
        return False, f"Nothing was changed: the task is {_words(done.status)} already."
    if done.sent:
        return True, "Cancelling: its engine was told to stop."
    if not done.reached:
        return True, "Cancelling, as soon as Redis answers."
    return True, "Cancelling, but it has just ended." if done.was_running else "Cancelled before it ran."


def _requeue(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Done:
    entry_id = request.POST.get("entry", "")[:64]
    done = requeue_task(task.id, actor=_name(request), why=reason, entry_id=entry_id)
    row.after = {"outcome": done.outcome, "status": done.status}
    said = {
        Requeued.RETURNED: "Handed back: it is next in line, and nothing was charged.",
        Requeued.WAITING: "Nothing was changed: it is in line already. Somebody else was faster.",
        Requeued.CHANGED: "Nothing was changed: another engine has it by now.",
        Requeued.ABSENT: f"Nothing was changed: no engine has it. It is {_words(done.status)}, or has just ended.",
    }
    return done.outcome is Requeued.RETURNED, said[done.outcome]


def _dead_letter(request: HttpRequest, task: Task, reason: str, row: OperatorAction) -> Done:
    seen = request.POST.get("attempt", "")
    attempt = int(seen) if seen.isdecimal() and len(seen) < 10 else None
    done = dead_letter(task.id, timezone.now(), actor=_name(request), why=reason, attempt=attempt)
    row.after = {"outcome": done.outcome, "status": done.status}
    said = {
        DeadLetterOutcome.ENDED: "Set aside: it is a dead letter now."
        if done.status == "dead_letter"
        else "Set aside: it failed.",
        DeadLetterOutcome.TAKEN: "Taken from its engine: it is a dead letter in a moment.",
        DeadLetterOutcome.OVER: f"Nothing was changed: it is {_words(done.status)} already, or has just ended.",
        DeadLetterOutcome.CHANGED: "Nothing was changed: it is at another attempt by now.",
        DeadLetterOutcome.NOT_QUEUED: f"Nothing was changed: it is {_words(done.status)}. Cancel it instead.",
    }
    return done.outcome in {DeadLetterOutcome.ENDED, DeadLetterOutcome.TAKEN}, said[done.outcome]


ACTS: dict[str, tuple[str, Act]] = {
    "cancel": ("task.cancel", _cancel),
    "requeue": ("task.requeue", _requeue),
    "dead-letter": ("task.dead_letter", _dead_letter),
}


def _name(request: HttpRequest) -> str:
    who: Person = person(request)
    return who["actor"]


def _words(status: str) -> str:
    return status.replace("_", " ")


def _back(request: HttpRequest, task: Task) -> HttpResponse:
    return back_to_page(request, below="/", otherwise=reverse("dashboard:queue", args=[task.queue]))
