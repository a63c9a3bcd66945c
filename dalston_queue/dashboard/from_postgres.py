"""The overview's part from Postgres: two queries, each along an index, whatever the tables hold."""

from __future__ import annotations

from typing import Any

from dalston_queue.dashboard.overview import InPostgres, RecentTask
from dalston_queue.models import DeadLetter, Task

SHOWN = 20
COUNTED = 1_000
"""Dead letters are counted to here; past it the page says "more than"."""

_FIELDS = (
    "id",
    "job_id",
    "task_type",
    "queue",
    "status",
    "priority",
    "attempt",
    "assigned_worker_id",
    "error",
    "created_at",
    "started_at",
    "finished_at",
)


def read() -> InPostgres:
    open_letters = DeadLetter.objects.filter(replayed_at__isnull=True, discarded_at__isnull=True)
    return InPostgres(tasks=_recent(), dead_letters=open_letters.order_by()[: COUNTED + 1].count())


def _recent() -> tuple[RecentTask, ...]:
    """The newest, and those that ended last: under load a task ends long after the newest twenty were submitted."""
    rows = Task.objects.values_list(*_FIELDS)
    newest = rows.order_by("-id")[:SHOWN]
    ended = rows.filter(finished_at__isnull=False).order_by("-finished_at")[:SHOWN]
    tasks = [_task(*row) for row in newest.union(ended)]
    return tuple(sorted(tasks, key=lambda task: (task.touched_at, task.id), reverse=True)[:SHOWN])


def _task(task_id: Any, job_id: Any, *rest: Any) -> RecentTask:
    return RecentTask(str(task_id), str(job_id), *rest)
