"""The rows that belong to a full queue, inserted by Postgres itself from a series of numbers."""

from datetime import datetime
from typing import Any

from django.db import connection, models
from django.utils import timezone

from bench.dashboards.fill_redis import QUEUES, TIERS, Size, engine_id
from dalston_queue.models import DeadLetter, Job, Project, Task

_TAIL = "lpad(to_hex(n), 12, '0')"
_TASK, _JOB = (f"('{head}-0000-7000-8000-' || {_TAIL})::uuid" for head in ("01920000", "01910000"))


def fill(size: Size) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no look at each row's job: they are all there
        indexes = _indexes(cursor)
        for name in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        _insert_all(size)
        for definition in indexes.values():  # sorted once, that takes a fraction of a million insertions
            cursor.execute(definition)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("ANALYZE")


def _indexes(cursor: Any) -> dict[str, str]:
    """Of the large tables, those that no constraint needs: how to make them again, by name."""
    cursor.execute(
        """
        SELECT indexname, indexdef FROM pg_indexes
        WHERE tablename IN ('dalston_job', 'dalston_task')
          AND indexname NOT IN (SELECT conname FROM pg_constraint)"""
    )
    return dict(cursor.fetchall())


def _insert_all(size: Size) -> None:
    """Numbers as in Redis: pending from 0, then what waits, then what is over, and of these the dead letters."""
    now = timezone.now()
    project = Project.objects.create(name="bench")
    total = size.pending + size.waiting
    job = Job(project=project, name="call.wav", trace_id="bench", created_at=now)
    states = {"running": (0, size.pending), "queued": (size.pending, total), "completed": (total, total + size.history)}
    for status, (first, end) in states.items():
        job.status = "completed" if status == "completed" else "running"
        job.finished_at = now if status == "completed" else None
        _insert(job, first, end, id=_JOB)
        _insert(_task(status, now), first, end, id=_TASK, job_id=_JOB, **_places(status, size))
    letter = DeadLetter(queue="transcribe", task_type="transcribe", cause="error", attempt=4, created_at=now)
    words = {"fingerprint": "lpad((n % 40)::text, 16, '0')", "error": "'CUDA error ' || n % 40"}
    _insert(letter, total, total + size.letters, id=_TASK, task_id=_TASK, **words)


def _task(status: str, now: datetime) -> Task:
    task = Task(stage="transcribe", queue="transcribe", task_type="transcribe", timeout_seconds=600, max_retries=3)
    task.parameters = {"file": "s3://calls/2026/11/16/a.wav", "language": "en"}
    task.status, task.created_at, task.enqueued_at = status, now, now
    task.started_at = None if status == "queued" else now
    task.finished_at = now if status == "completed" else None
    return task


def _places(status: str, size: Size) -> dict[str, str]:
    """In which queue and with which engine the script in Redis put each number."""
    if status == "running":
        share = size.pending // size.engines
        engines = ", ".join(f"'{engine_id(number)}'" for number in range(size.engines))
        queues = ", ".join(f"'{queue}'" for queue in QUEUES)
        engine = f"least(n / {share}, {size.engines - 1})"
        place = f"(ARRAY[{queues}])[1 + {engine} % {len(QUEUES)}]"
        return {"assigned_worker_id": f"(ARRAY[{engines}])[1 + {engine}]", "queue": place, "task_type": place}
    share = max(1, size.waiting // (len(QUEUES) * len(TIERS)))
    queues = ", ".join(f"'{queue}'" for queue in QUEUES)
    place = f"(ARRAY[{queues}])[1 + least((n - {size.pending}) / {share * len(TIERS)}, {len(QUEUES) - 1})]"
    return {"queue": place, "task_type": place}


def _insert(row: models.Model, first: int, end: int, **expressions: str) -> None:
    """The row so many times; `expressions` of n stand for columns that differ."""
    meta = type(row)._meta  # noqa: SLF001 - Django's documented way to its fields
    columns: list[str] = []
    values: list[str] = []
    given: list[Any] = []
    for field in meta.concrete_fields:
        if field.primary_key and field.attname not in expressions:
            continue
        assert field.column, "a concrete field has one"
        columns.append(connection.ops.quote_name(field.column))
        if field.attname in expressions:
            values.append(expressions[field.attname].replace("%", "%%"))
        else:
            values.append(f"%s::{field.db_type(connection)}")
            given.append(field.get_db_prep_save(getattr(row, field.attname), connection))
    places, made = ", ".join(columns), ", ".join(values)
    with connection.cursor() as cursor:
        sql = f"INSERT INTO {meta.db_table} ({places}) SELECT {made} FROM generate_series(%s, %s) AS n"
        cursor.execute(sql, [*given, first, end - 1])
