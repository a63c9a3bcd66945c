"""Cancels a task or a job for a principal, with its audit row."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils import timezone

from dalston_queue.api.auth.principal import Principal
from dalston_queue.api.errors.problems import ApiProblem, Code, not_found
from dalston_queue.audit.record import audited
from dalston_queue.jobs.operator.cancel import (
    Cancellation,
    cancel_job,
    cancel_message,
    cancel_task,
    job_stops_already,
    task_stops_already,
)


class Cancel(Protocol):
    def __call__(self, row_id: UUID, now: datetime, /, *, why: str) -> Cancellation: ...


class Repeated(Protocol):
    def __call__(self, row_id: UUID, /) -> Cancellation | None: ...


_ACTIONS: dict[str, tuple[Cancel, Repeated]] = {
    "task": (cancel_task, task_stops_already),
    "job": (cancel_job, job_stops_already),
}


def cancel(principal: Principal, noun: str, row_id: UUID, was: str, *, reason: str) -> Cancellation:
    """Safe to repeat: what is cancelled already stays so, and what stops already goes on to. Such a request changes
    nothing and writes no audit row: the trail is kept for ever, and a client could fill it. What has ended otherwise is
    409, also if it ended during this request."""
    action, repeated = _ACTIONS[noun]
    outcome = repeated(row_id)
    if outcome is None:
        before, signature = {"status": was}, principal.signature()
        with audited(f"{noun}.cancel", str(row_id), reason=reason, before=before, **signature) as row:
            outcome = action(row_id, timezone.now(), why=cancel_message(principal.name, reason))
            row.after = {"status": outcome.status, "was_running": outcome.was_running, "engine_notified": outcome.sent}
    if not outcome.found:
        raise not_found(f"{noun} {row_id}")
    if outcome.too_late:
        raise ApiProblem(409, Code.STATE_CONFLICT, f"The {noun} is over already: it is {outcome.status}.")
    return outcome
