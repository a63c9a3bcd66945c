"""READY tasks by the million, made by Postgres itself from a series of numbers. Needs Django to be set up."""

from typing import Any
from uuid import UUID, uuid4

from django.db import connection

from dalston_queue.models import Project

PARAMETERS = '{"language": "en", "audio": "s3://bucket/2026/11/16/call-0001.wav"}'

# Ids grow with the number, as those of uuid7 do. The oldest task has the number 1.
_ID = "(%(head)s || '-' || {part} || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
_JOB_ID, _TASK_ID = _ID.format(part="'0000'"), _ID.format(part="'0001'")
_PROJECT = "(%(projects)s::uuid[])[1 + n %% cardinality(%(projects)s::uuid[])]"
_KEY = "CASE WHEN %(keys)s > 1 THEN 'key-' || n / cardinality(%(projects)s::uuid[]) %% %(keys)s ELSE %(key)s END"
_AT = "%(oldest)s::timestamptz + n * interval '1 microsecond'"
_JOBS = f"""
    INSERT INTO dalston_job
        (id, project_id, name, status, priority, parameters, trace_id, callback_url, progress, error, created_at,
         started_at)
    SELECT {_JOB_ID}, {_PROJECT}, 'bench', 'running', %(priority)s, '{{}}', 'bench', '', 0, '', {_AT}, {_AT}
    FROM generate_series(1, %(count)s) AS n"""
_TASKS = f"""
    INSERT INTO dalston_task
        (id, job_id, project_id, stage, queue, lane, concurrency_key, task_type, after, required, weight, status,
         priority, effective_priority, required_capabilities, parameters, timeout_seconds, attempt, event_seq,
         max_retries, retry_count, deliveries, node_losses, assigned_worker_id, error, error_type, error_cause,
         created_at, first_enqueued_at)
    SELECT {_TASK_ID}, {_JOB_ID}, {_PROJECT}, %(queue)s, %(queue)s, %(queue)s, {_KEY}, %(queue)s, '{{}}', true, 1,
           'ready', %(priority)s, %(priority)s, '{{}}', %(parameters)s, 600, 1, 0, 3, 0, 0, 0, '', '', '', '',
           {_AT}, {_AT}
    FROM generate_series(1, %(count)s) AS n"""
_DEPTH = """
    INSERT INTO dalston_depth (lane, tier, ready, queued, running) VALUES (%(queue)s, %(priority)s, %(count)s, 0, 0)"""


# As jobs/lifecycle/status.py moves them, without their history.
_MOVES = (
    "status = 'queued'",
    "status = 'running', event_seq = 1, started_at = now(), assigned_worker_id = 'bench'",
    "status = 'completed', event_seq = 2, result = '{}', finished_at = now()",
)
_OLDEST = """
    SELECT id FROM dalston_task WHERE status = 'ready' AND lane = %s AND tier = 'medium'
    ORDER BY first_enqueued_at, id LIMIT %s"""
_READY_INDEXES = ("task_ready_by_group", "task_ready_by_age")
_SIZES = "SELECT name, pg_relation_size(name::regclass) FROM unnest(%s::text[]) AS name"


def project_named(name: str) -> Project:
    return Project.objects.create(name=name)


def projects(count: int, name: str = "bench") -> list[UUID]:
    """So many new projects."""
    made = Project.objects.bulk_create(Project(name=f"{name}-{number}") for number in range(count))
    return [project.pk for project in made]


def add_ready(
    count: int, of: list[UUID], *, keys: int = 1, key: str = "", queue: str = "echo", priority: str = "medium",
    oldest: Any = "2026-01-01T12:00:00Z",
) -> None:  # fmt: skip
    """So many READY tasks, each of a running job: of these projects in turn, and of so many keys of each, or of one
    `key`. The first one is the oldest."""
    arguments = {
        "count": count, "projects": of, "keys": keys, "key": key, "queue": queue, "priority": priority,
        "oldest": oldest, "head": uuid4().hex[:8], "parameters": PARAMETERS,
    }  # fmt: skip
    with connection.cursor() as cursor:
        for statement in (_JOBS, _TASKS, _DEPTH):
            cursor.execute(statement, arguments)


def finish_oldest(count: int, queue: str = "echo") -> None:
    """The oldest READY tasks through all states. The depth is not kept."""
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST, [queue, count])
        ids = [row[0] for row in cursor.fetchall()]
        for move in _MOVES:
            cursor.execute(f"UPDATE dalston_task SET {move} WHERE id = ANY(%s)", [ids])


def index_sizes(*, rebuilt: bool = False) -> dict[str, int]:
    """Bytes of the indexes of READY tasks. `rebuilt`: made anew before."""
    with connection.cursor() as cursor:
        if rebuilt:
            cursor.execute("REINDEX TABLE dalston_task")
        cursor.execute(
            "SELECT name, pg_relation_size(name::regclass) FROM unnest(%s::text[]) AS name", [list(_READY_INDEXES)]
        )
        return dict(cursor.fetchall())
