"""New jobs and tasks on their way into Postgres: all of a batch as one JSON text per table, one statement.

Several times faster than the ORM's bulk_create, which prepares every value of every row by itself.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    project_id: UUID
    token_id: UUID | None
    name: str
    priority: str
    parameters: msgspec.Raw
    trace_id: str
    callback_url: str


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    job_id: UUID
    stage: str
    queue: str
    task_type: str
    after: tuple[str, ...]
    required: bool
    weight: float
    priority: str
    required_capabilities: tuple[str, ...]
    parameters: msgspec.Raw
    timeout_seconds: int
    max_retries: int
    scheduled_at: datetime | None


_JOBS = """
    INSERT INTO dalston_job
        (id, project_id, token_id, name, status, priority, parameters, trace_id, callback_url, progress, error,
         created_at)
    SELECT id, project_id, token_id, name, 'pending', priority, parameters, trace_id, callback_url, 0, '', %(now)s
    FROM jsonb_to_recordset(%(jobs)s::jsonb) AS new (
        id uuid, project_id uuid, token_id uuid, name text, priority text, parameters jsonb, trace_id text,
        callback_url text
    )"""

_TASKS = """
    INSERT INTO dalston_task
        (id, job_id, stage, queue, task_type, after, required, weight, status, priority, effective_priority,
         required_capabilities, parameters, timeout_seconds, attempt, event_seq, max_retries, retry_count, deliveries,
         node_losses, assigned_worker_id, error, error_type, error_cause, scheduled_at, created_at)
    SELECT id, job_id, stage, queue, task_type, after, required, weight, 'pending', priority, priority,
         required_capabilities, parameters, timeout_seconds, 1, 0, max_retries, 0, 0,
         0, '', '', '', '', scheduled_at, %(now)s
    FROM jsonb_to_recordset(%(tasks)s::jsonb) AS new (
        id uuid, job_id uuid, stage text, queue text, task_type text, after text[], required bool, weight float8,
        priority text, required_capabilities text[], parameters jsonb, timeout_seconds int, max_retries int,
        scheduled_at timestamptz
    )"""

# The foreign key from task to job is checked at the end of the transaction.
_JOBS_AND_TASKS = f"WITH jobs AS ({_JOBS}) {_TASKS}"


def insert_jobs(jobs: Collection[NewJob], tasks: Collection[NewTask], now: datetime) -> None:
    """Jobs with all their tasks, in one statement: without a transaction around it, it is one by itself."""
    arguments: dict[str, Any] = {
        "now": now,
        "jobs": msgspec.json.encode(jobs).decode(),
        "tasks": msgspec.json.encode(tasks).decode(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_JOBS_AND_TASKS, arguments)


def insert_tasks(tasks: Collection[NewTask], now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, {"now": now, "tasks": msgspec.json.encode(tasks).decode()})
