"""Spans of transitions, recorded after the commit: `submit` of a job, `wait` and `apply` of an attempt.

`status` calls this for each move, as it calls the log. dalston_queue/tracing/ has the tree.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from dalston_queue.jobs.lifecycle.states import TaskStatus
from dalston_queue.tracing import caller, export, ids

if TYPE_CHECKING:
    from dalston_queue.jobs.lifecycle.status import Change, Moved

APPLIED = frozenset({"complete", "retry", "fail", "dead_letter", "cancel", "recover"})
"""Transitions that end an attempt, or a delivery of it."""
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


class _Job(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def trace_id(self) -> str: ...


def jobs_submitted(jobs: Iterable[_Job], began: datetime) -> None:
    if export.enabled():
        transaction.on_commit(partial(_submitted, list(jobs), began), robust=True)


def tasks_moved(name: str, changes: Sequence["Change"], moved: Sequence["Moved"]) -> None:
    if moved and export.enabled() and (name == "start" or name in APPLIED):
        transaction.on_commit(partial(_moved, name, changes, moved), robust=True)


def _submitted(jobs: Sequence[_Job], began: datetime) -> None:
    times = _ns(began), _ns(timezone.now())
    for job in jobs:
        span, parent = ids.submit(job.id), caller.span_in(job.trace_id)
        about: dict[str, str | int] = {"job_id": str(job.id)}
        export.record("submit", job.trace_id, span, parent, times, kind="server", attributes=about)


def _moved(name: str, changes: Sequence["Change"], moved: Sequence["Moved"]) -> None:
    of_task = {change.task_id: change for change in changes}
    now = timezone.now()
    for move in moved:
        change = of_task[move.task_id]
        # A completion may be the first that is known of the claim.
        if name == "start" or (name == "complete" and move.was != TaskStatus.RUNNING):
            _wait(change, move)
        if name != "start":
            _apply(name, change, move, now)


def _wait(change: "Change", move: "Moved") -> None:
    claimed = change.start_at or change.at
    waited = move.waited_s if move.waited_s is not None else move.claim_s
    times = _ns(claimed - timedelta(seconds=max(0.0, waited or 0.0))), _ns(claimed)
    span = ids.wait(move.task_id, change.attempt, change.engine_id)
    about = {**_about(change, move), "tier": move.tier}
    export.record("wait", move.trace_id, span, ids.submit(move.job_id), times, attributes=about)


def _apply(name: str, change: "Change", move: "Moved", now: datetime) -> None:
    engine = change.engine_id
    span = ids.apply(move.task_id, change.attempt, engine, name)
    parent = ids.wait(move.task_id, change.attempt, engine) if engine else ids.submit(move.job_id)
    about = {**_about(change, move), "transition": name}
    times = _ns(change.at), _ns(now)
    export.record("apply", move.trace_id, span, parent, times, kind="consumer", failed=change.cause, attributes=about)


def _about(change: "Change", move: "Moved") -> dict[str, str | int]:
    """What a log line has, but for the trace id."""
    return {
        "job_id": str(move.job_id),
        "task_id": str(move.task_id),
        "attempt": change.attempt,
        "engine_id": change.engine_id,
        "lane": move.lane,
    }


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND * 1000
