"""Large entries: what a project's tasks with much input take in Redis, and the bound of it.

A window bounds the number of entries, not their bytes: 100 queues of one project with inputs of 256 KiB would fill
Redis for all. An entry of up to SMALL_BYTES is not counted. Of larger ones a project may have as many as fit its bound;
then its tasks wait READY, and those of other projects go on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django.conf import settings
from django.db import connection
from msgspec import Raw

from dalston_queue.broker.protocol.messages import TaskMessage
from dalston_queue.jobs.lifecycle.status import id_array

SMALL_BYTES = 8 * 1024

_OF_PROJECTS = """
    SELECT project_id, sum(entry_bytes) FROM dalston_task
    WHERE entry_bytes > 0 AND status IN ('queued', 'running') AND ({where}) GROUP BY project_id"""
FULL = _OF_PROJECTS.format(where="true") + " HAVING sum(entry_bytes) >= %s"
_USED = _OF_PROJECTS.format(where="project_id = ANY(%s::uuid[]) AND id <> ALL(%s::uuid[])")
_PROJECTS = "SELECT id::text, project_id FROM dalston_task WHERE id = ANY(%s::uuid[])"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('dalston_entry_bytes'), hashtext(%s))"
_NOTE = """
    UPDATE dalston_task t SET entry_bytes = v.size FROM unnest(%s::uuid[], %s::int[]) AS v (id, size)
    WHERE t.id = v.id AND t.entry_bytes <> v.size"""


def full_projects() -> frozenset[UUID]:
    """The projects that may put no further entry into Redis now."""
    with connection.cursor() as cursor:
        cursor.execute(FULL, [settings.DALSTON_MAX_REDIS_BYTES])
        return frozenset(row[0] for row in cursor.fetchall())


def within_bound(messages: Sequence[TaskMessage]) -> list[TaskMessage]:
    """Those of these messages that fit the bounds of their projects, which are noted as taken until the tasks are over.
    In the transaction that queues them."""
    large = {message.task_id: size for message in messages if (size := _bytes(message)) > SMALL_BYTES}
    if not large:
        return list(messages)
    with connection.cursor() as cursor:
        cursor.execute(_PROJECTS, [list(large)])
        projects: dict[str, UUID] = dict(cursor.fetchall())
        for project in sorted(set(projects.values())):  # two refills at a time see what the other took
            cursor.execute(_LOCK, [str(project)])
        cursor.execute(_USED, [id_array(projects.values()), list(large)])
        used: dict[UUID, int] = dict(cursor.fetchall())
        kept = []
        for message in messages:
            if message.task_id in large:
                project = projects[message.task_id]
                if used.get(project, 0) >= settings.DALSTON_MAX_REDIS_BYTES:
                    continue
                used[project] = used.get(project, 0) + large[message.task_id]
            kept.append(message)
        _note(large, kept)
    return kept


def _note(large: dict[str, int], kept: Collection[TaskMessage]) -> None:
    taken = [message.task_id for message in kept if message.task_id in large]
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [taken, [large[task] for task in taken]])


def _bytes(message: TaskMessage) -> int:
    """As dispatch makes them: the JSON texts of Postgres."""
    return _length(message.parameters) + sum(_length(result) for result in message.inputs.values())


def _length(value: object) -> int:
    return len(value) if isinstance(value, Raw) else 0
