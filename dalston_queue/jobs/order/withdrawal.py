"""Withdrawal: takes entries that no engine has had out of their windows again."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from django.db import connection

from dalston_queue import crash_points
from dalston_queue.broker.protocol.types import Removed
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_tasks
from dalston_queue.jobs.order.share import Budget, Group
from dalston_queue.jobs.order.spending import Entry, Spending
from dalston_queue.jobs.order.window import LaneTier, Windows
from dalston_queue.redis import get_broker

MAX_ENTRIES = 500
"""So many entries of the windows are read, the youngest tasks first."""

# Not what an engine had before: it waits in front of the others.
ENTRIES = """
    SELECT id, job_id, attempt, queue, lane, tier, project_id, concurrency_key FROM dalston_task
    WHERE status = 'queued' AND event_seq = 0 AND (queue = ANY(%s) OR project_id = ANY(%s::uuid[]))
    ORDER BY first_enqueued_at DESC, id LIMIT %s"""

Row = tuple[UUID, UUID, int]
"""Task, job, attempt."""


def make_room(
    spending: Spending,
    lane_tier: LaneTier,
    windows: Windows,
    choose: Callable[[Sequence[Budget]], list[Group]],
    now: datetime,
) -> int:
    """Withdraw entries that use up limits while a better task waits: one of a higher tier, or one that an engine can
    run. Returns how many. `choose`: the groups of the next tasks, within budgets. The limits must be locked.

    A crash before the commit leaves QUEUED tasks without an entry: the reconciler gives them their next attempt.
    """
    later = _later(spending, lane_tier, windows)
    chosen = spending.to_withdraw(later, choose)
    jobs = lock_jobs((entry.job_id for entry in chosen), skip_locked=True) if chosen else {}
    mine = sorted((entry for entry in chosen if entry.job_id in jobs), key=attrgetter("queue"))
    changes: list[Change] = []
    for queue, entries in groupby(mine, attrgetter("queue")):
        rows = [(entry.task_id, entry.job_id, entry.attempt) for entry in entries]
        outcomes = remove_entries(queue, rows)
        changes += [
            Change(task_id=task, attempt=attempt, at=now, message="a limit is used up, and a better task waits for it")
            for task, _, attempt in rows
            if outcomes.get(task) is Removed.REMOVED
        ]
    return len(move_tasks("withdraw", changes))


def _later(spending: Spending, lane_tier: LaneTier, windows: Windows) -> list[Entry]:
    """Entries of the windows that engines claim from later than from this one; of the last window first."""
    queues, projects = spending.scopes()
    if not queues and not projects:
        return []
    with connection.cursor() as cursor:
        cursor.execute(ENTRIES, [queues, projects, MAX_ENTRIES])
        rows = cursor.fetchall()
    mine = windows.rank(lane_tier)
    ranked = [
        (rank, Entry(task, job, attempt, queue, (project, key)))
        for task, job, attempt, queue, lane, tier, project, key in rows
        if (rank := windows.rank((lane, tier))) > mine
    ]
    return [entry for _, entry in sorted(ranked, key=lambda each: each[0], reverse=True)]


def remove_entries(queue: str, rows: Sequence[Row]) -> dict[UUID, Removed]:
    """Remove the entries of these tasks, except those that an engine has had: they wait in front of the others, and
    their event numbers have gone on."""
    broker = get_broker()
    records = broker.records(queue, [str(task) for task, _, _ in rows])
    had = {(UUID(task), record.attempt) for task, record in records.items() if record.seq > 0}
    mine = [(task, attempt) for task, _, attempt in rows if (task, attempt) not in had]
    outcomes = broker.remove_many(queue, [(str(task), attempt) for task, attempt in mine])
    crash_points.point("withdrawal.removed")
    return {task: outcome for (task, _), outcome in zip(mine, outcomes, strict=True)}
