"""Spans of the orchestrator: `wait`, until an engine started a task, and `apply`, from a report to its commit.

Recorded after the commit, from the rows that the transition wrote: one query per batch. None without OTEL_* variables.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from dalston_queue.tracing.context import parent_of_job
from dalston_queue.tracing.spans import is_on, record

if TYPE_CHECKING:
    from dalston_queue.jobs.lifecycle.status import Change, Moved

APPLIED = {
    "complete": "completed",
    "retry": "retried",
    "fail": "failed",
    "dead_letter": "dead_letter",
    "cancel": "cancelled",
    "recover": "recovered",
}
"""Transitions that an engine, or the reclaim after its death, has reported."""
_FAILURES = frozenset({"retried", "failed", "dead_letter", "recovered"})

_FACTS = """
    SELECT t.id, j.traceparent, t.queue, waits.at
    FROM dalston_task t JOIN dalston_job j ON j.id = t.job_id
    LEFT JOIN LATERAL (
        SELECT e.at FROM dalston_task_event e
        WHERE e.task_id = t.id AND e.transition IN ('make_ready', 'due', 'rebuild', 'replay', 'recover')
        ORDER BY e.id DESC LIMIT 1
    ) AS waits ON true
    WHERE t.id = ANY(%s)"""


def tasks_moved(name: str, changes: Sequence["Change"], moved: Sequence["Moved"]) -> None:
    if moved and is_on() and (name == "start" or name in APPLIED):
        # robust: the move is committed; a span must not stop what follows it.
        transaction.on_commit(partial(_record, name, changes, moved), robust=True)


def _record(name: str, changes: Sequence["Change"], moved: Sequence["Moved"]) -> None:
    now = timezone.now()
    of_task = {change.task_id: change for change in changes}
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [[move.task_id for move in moved]])
        facts: dict[UUID, tuple[str, str, datetime | None]] = {row[0]: row[1:] for row in cursor.fetchall()}
    for move in moved:
        if move.task_id not in facts:
            continue
        change = of_task[move.task_id]
        traceparent, queue, ready_at = facts[move.task_id]
        parent = parent_of_job(traceparent, move.trace_id, str(move.job_id))
        ids = {"task_id": move.task_id, "job_id": move.job_id, "queue": queue, "engine_id": change.engine_id}
        ids |= {"attempt": move.attempt - (name == "retry")}  # the attempt that was reported
        started_at = change.at if name == "start" else change.start_at if move.with_start else None
        if started_at and ready_at:
            record("wait", parent, ready_at, started_at, ids)
        if outcome := APPLIED.get(name):
            failed = (change.cause or outcome) if outcome in _FAILURES else None
            record("apply", parent, change.at, now, {**ids, "outcome": outcome}, failed=failed)
