"""What the API shows of a task beside its row: since when it is in its state, and the key of its request."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import connection

from dalston_queue.models import Task

COLUMNS = """
        (SELECT e.at FROM dalston_task_event e WHERE e.task_id = t.id AND e.from_status <> e.to_status
         ORDER BY e.id DESC LIMIT 1) AS since,
        (SELECT k.key FROM dalston_idempotency_key k WHERE k.job_id = t.job_id ORDER BY k.id LIMIT 1) AS key"""
"""Of a statement that reads `dalston_task t`."""
_FACTS = f"SELECT t.id, {COLUMNS} FROM dalston_task t WHERE t.id = ANY(%s)"  # noqa: S608 - a constant

Facts = tuple[datetime | None, str | None]
"""Of its last transition, None before the first; its idempotency key, None without one or when it has expired."""


def facts_of(tasks: Iterable[Task]) -> dict[UUID, Facts]:
    """In one statement, an index lookup for each task."""
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [[task.id for task in tasks]])
        return {task: (since, key) for task, since, key in cursor.fetchall()}
