"""Storage of projects: what their files take in the artifact store, and the refusal of jobs that would add to it.

Each reference of a job to a file is a row of `dalston_job_artifact`. Housekeeping counts a row once its file's size is
known, within a minute, in `stored_bytes` of the project: a file counts once, however many jobs have it. Both statements
change rows and number in one transaction that has locked the projects, so two processes count nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from dalston_queue.jobs.errors import StorageFull
from dalston_queue.models import JobArtifact, Project

_TAKEN = """
    SELECT stored_bytes + (
        SELECT coalesce(sum(size), 0) FROM (
            SELECT DISTINCT ON (ref) size FROM dalston_job_artifact
            WHERE project_id = %(project)s AND NOT counted ORDER BY ref
        ) AS new
    ) FROM dalston_project WHERE id = %(project)s"""

_LOCK = "SELECT id FROM dalston_project WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE"

# A file that is not in the store has size 0, until a later row finds it there.
_COUNT = """
    WITH sized AS (
        UPDATE dalston_job_artifact a SET counted = true, size = found.size
        FROM unnest(%s::bigint[], %s::bigint[]) AS found (id, size) WHERE a.id = found.id AND NOT a.counted
        RETURNING a.project_id, a.ref, a.size
    ), fresh AS (
        SELECT project_id, ref, max(size) AS size FROM sized WHERE NOT EXISTS (
            SELECT 1 FROM dalston_job_artifact b
            WHERE b.ref = sized.ref AND b.project_id = sized.project_id AND b.counted AND b.size > 0
        ) GROUP BY project_id, ref
    )
    UPDATE dalston_project p SET stored_bytes = p.stored_bytes + more.size
    FROM (SELECT project_id, sum(size) AS size FROM fresh GROUP BY project_id) AS more WHERE p.id = more.project_id"""

_FOUND = """
    UPDATE dalston_job_artifact a SET size = b.size FROM dalston_job_artifact b
    WHERE b.id = ANY(%s) AND b.size > 0
      AND a.ref = b.ref AND a.project_id = b.project_id AND a.counted AND a.size = 0"""

_FORGET = """
    WITH gone AS (
        DELETE FROM dalston_job_artifact WHERE id = ANY(%(ids)s) AND job_id IS NULL
        RETURNING project_id, ref, size, counted
    ), last AS (
        SELECT project_id, ref, max(size) AS size FROM gone WHERE counted AND NOT EXISTS (
            SELECT 1 FROM dalston_job_artifact b
            WHERE b.ref = gone.ref AND b.project_id = gone.project_id AND b.counted AND b.size > 0
              AND b.id <> ALL(%(ids)s)
        ) GROUP BY project_id, ref
    )
    UPDATE dalston_project p SET stored_bytes = greatest(0, p.stored_bytes - less.size)
    FROM (SELECT project_id, sum(size) AS size FROM last GROUP BY project_id) AS less WHERE p.id = less.project_id"""


class Reference(NamedTuple):
    """A row of `dalston_job_artifact`."""

    id: int
    project_id: UUID
    ref: str
    size: int | None


def taken_by(project_id: UUID) -> int:
    """Bytes of the project's counted files, and of uploads that are not counted yet, which may have the content of a
    counted one."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN, {"project": project_id})
        row: tuple[int] | None = cursor.fetchone()
    return 0 if row is None else int(row[0])


def check_room(project: Project) -> None:
    """Raises StorageFull if the counted files of the project take more than its share."""
    if project.stored_bytes > settings.DALSTON_MAX_STORED_BYTES:
        raise StorageFull(settings.DALSTON_MAX_STORED_BYTES)


def uncounted(limit: int) -> list[Reference]:
    """References whose files are not counted yet, those of one project after the other."""
    rows = JobArtifact.objects.filter(counted=False).order_by("project_id", "ref")[:limit]
    return [Reference(*each) for each in rows.values_list("id", "project_id", "ref", "size")]


def count_rows(rows: Sequence[Reference], sizes: Mapping[str, int]) -> None:
    """Count these rows with the sizes of their files."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [list({row.project_id for row in rows})])
        ids = [row.id for row in rows]
        cursor.execute(_COUNT, [ids, [sizes[row.ref] for row in rows]])
        cursor.execute(_FOUND, [ids])


def forget_rows(rows: Collection[JobArtifact]) -> None:
    """Delete these rows of deleted jobs; their files are gone, or other jobs have them."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [list({row.project_id for row in rows})])
        cursor.execute(_FORGET, {"ids": [row.pk for row in rows]})
