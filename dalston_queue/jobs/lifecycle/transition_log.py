"""Log lines of transitions: one per task or job that moved, written in batches after the commit.

`status` calls this for each move. What is rolled back is never logged. A line has what the history row has, but for the
message, which may quote the client.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from dalston_queue import task_log

if TYPE_CHECKING:
    from dalston_queue.jobs.lifecycle.status import Change, LockedJob, Moved

log = logging.getLogger("lifecycle")

TASK_EVENTS = {
    "make_ready": "task_ready",
    "defer": "task_deferred",
    "due": "task_due",
    "promote": "task_promoted",
    "withdraw": "task_withdrawn",
    "enqueue": "task_queued",
    "start": "task_started",
    "recover": "task_recovered",
    "complete": "task_completed",
    "retry": "task_retried",
    "rebuild": "task_rebuilt",
    "fail": "task_failed",
    "dead_letter": "task_dead_lettered",
    "cancel": "task_cancelled",
    "skip": "task_skipped",
    "replay": "task_replayed",
    "reopen": "task_reopened",
}
JOB_EVENTS = {
    "claim": "job_claimed",
    "complete": "job_completed",
    "wind_down": "job_winding_down",
    "fail": "job_failed",
    "cancel": "job_cancelled",
    "replay": "job_replayed",
}
WARNINGS = frozenset({"task_recovered", "task_failed", "task_dead_lettered", "job_failed"})

_UNCLAIMED = {"make_ready": "dependent_already_claimed", "defer": "dependent_already_claimed"}


def tasks_moved(name: str, changes: Sequence["Change"], moved: Sequence["Moved"]) -> None:
    """After the commit: a line per task that moved; for debugging also one per task that another process had moved."""
    event = TASK_EVENTS[name]
    of_task = {change.task_id: change for change in changes}
    if moved:
        _after_commit(_level(event), partial(_task_rows, event, of_task, moved))
    if len(moved) < len(changes):
        _after_commit(logging.DEBUG, partial(_rows_of_the_rest, name, of_task, moved))


def jobs_moved(name: str, moved: Iterable[tuple[UUID, str]]) -> None:
    """After the commit: a line per job, given with its trace."""
    event = JOB_EVENTS[name]
    _after_commit(_level(event), partial(_job_rows, event, moved))


def jobs_not_claimed(jobs: Iterable["LockedJob"]) -> None:
    """Another orchestrator was faster, or the job was cancelled before."""
    _after_commit(
        logging.INFO, partial(_job_rows, "job_already_claimed_or_cancelled", [(job.id, job.trace_id) for job in jobs])
    )


def jobs_submitted(jobs: Iterable[tuple[UUID, str, int]]) -> None:
    """A line per job that was stored: its id, its trace and its number of tasks."""
    rows = [{**row, "tasks": tasks} for job, trace, tasks in jobs for row in _job_rows("job_submitted", [(job, trace)])]
    _after_commit(logging.INFO, lambda: rows)


def _after_commit(level: int, rows: Callable[[], Sequence[task_log.Row]]) -> None:
    if log.isEnabledFor(level):
        # robust: the move is committed, so a broken handler of the log must not stop what follows it.
        transaction.on_commit(lambda: task_log.write(log, level, rows()), robust=True)


def _level(event: str) -> int:
    return logging.WARNING if event in WARNINGS else logging.INFO


def _task_rows(event: str, changes: Mapping[UUID, "Change"], moved: Sequence["Moved"]) -> list[task_log.Row]:
    rows: list[task_log.Row] = []
    for move in moved:
        change = changes[move.task_id]
        if move.with_start:
            rows.append({**_ids("task_started", change, move), "from": move.was, "lane": move.lane, "tier": move.tier})
        row = _ids(event, change, move)
        row["from"] = "running" if move.with_start else move.was
        row["lane"], row["tier"] = move.lane, move.tier
        if change.priority:
            row["from_tier"] = move.old_tier
        if change.cause:
            row["cause"] = change.cause
        if change.error_type:
            row["error_type"] = change.error_type
        if change.deliveries:
            row["deliveries"] = change.deliveries
        if change.scheduled_at:
            row["scheduled_at"] = change.scheduled_at
        rows.append(row)
    return rows


def _ids(event: str, change: "Change", move: "Moved") -> dict[str, Any]:
    return {
        "event": event,
        "trace_id": move.trace_id,
        "job_id": move.job_id,
        "task_id": move.task_id,
        "attempt": move.attempt,
        "engine_id": change.engine_id,
    }


def _rows_of_the_rest(name: str, changes: Mapping[UUID, "Change"], moved: Sequence["Moved"]) -> list[task_log.Row]:
    event = _UNCLAIMED.get(name, "transition_refused")
    done = {move.task_id for move in moved}
    return [
        {"event": event, "task_id": task, "attempt": change.attempt, "engine_id": change.engine_id, "transition": name}
        for task, change in changes.items()
        if task not in done
    ]


def _job_rows(event: str, jobs: Iterable[tuple[UUID, str]]) -> list[task_log.Row]:
    return [{"event": event, "trace_id": trace, "job_id": job} for job, trace in jobs]
