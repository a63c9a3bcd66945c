"""References of jobs to artifacts in Postgres: added with an upload or a result, released with the job, then deleted.

Of two orders of events each is safe: a row is added only for a file that was stored within the grace time, and a file
is deleted only if it was not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.conf import settings
from django.db import connection

from dalston_queue.artifacts import Artifact, ArtifactError, Store, StoreError, open_store
from dalston_queue.artifacts.reference import is_reference, stored_value
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.models import JobArtifact
from dalston_queue.models.artifact import ArtifactKind

log = structlog.get_logger(__name__)

_ADD_RESULTS = """
    INSERT INTO dalston_job_artifact (project_id, job_id, ref, name, kind)
    SELECT j.project_id, j.id, new.ref, '', 'result'
    FROM unnest(%s::uuid[], %s::text[]) AS new (job_id, ref) JOIN dalston_job j ON j.id = new.job_id
    ORDER BY j.id, new.ref
    ON CONFLICT (job_id, ref) DO NOTHING"""

_ADD_NAMED = """
    INSERT INTO dalston_job_artifact (project_id, job_id, ref, size, name, kind)
    SELECT DISTINCT ON (a.ref) a.project_id, j.id, a.ref, a.size, a.name, a.kind
    FROM dalston_job_artifact a JOIN dalston_job j ON j.project_id = a.project_id
    WHERE j.id = %s AND a.ref = ANY(%s) AND a.job_id IS NOT NULL
    ORDER BY a.ref, a.id
    ON CONFLICT (job_id, ref) DO NOTHING"""

RELEASE = "UPDATE dalston_job_artifact SET job_id = NULL WHERE job_id = ANY(%s)"
"""Before the jobs are deleted."""


def the_store() -> Store:
    """The store of this installation. Raises StoreError if it has none."""
    if not settings.DALSTON_ARTIFACTS_URL:
        raise StoreError("this installation has no artifact store: set DALSTON_ARTIFACTS_URL (docs/artifacts.md)")
    return _store(settings.DALSTON_ARTIFACTS_URL)


@lru_cache(maxsize=4)
def _store(url: str) -> Store:
    return open_store(url)


def by_value(result: Any) -> Any:
    """A result as its task returned it: read from the store, if it lies there and is no larger than a result that is
    kept in its row. A larger one, and one that can't be read right now, stays a reference."""
    ref = stored_value(result)
    if ref is None:
        return result
    limit = settings.DALSTON_MAX_RESULT_BYTES
    try:
        found = the_store().read(ref, limit + 1)
        return result if len(found) > limit else msgspec.json.decode(found)
    except (ArtifactError, msgspec.DecodeError) as error:
        log.warning("a result can't be read from the artifact store", ref=ref, error=str(error))
        return result


def add_upload(project_id: UUID, job_id: UUID, artifact: Artifact, name: str) -> None:
    JobArtifact.objects.create(
        project_id=project_id, job_id=job_id, ref=artifact.ref, size=artifact.size, name=name, kind=ArtifactKind.UPLOAD
    )


def add_results(found: Mapping[UUID, Collection[str]]) -> None:
    """References in the results of these jobs, which must be locked."""
    pairs = sorted({(job, ref) for job, refs in found.items() for ref in refs})
    if pairs:
        with connection.cursor() as cursor:
            cursor.execute(_ADD_RESULTS, [[job for job, _ in pairs], [ref for _, ref in pairs]])


def check_named(project_id: UUID, refs: Collection[str]) -> None:
    """A client names these references in parameters: engines would read them, and results might name them. Those that
    the project's jobs have stay at least until the transaction ends; one that only other projects have is refused.
    Raises InvalidJob."""
    if not refs:
        return
    rows = JobArtifact.objects.filter(ref__in=refs)
    own = rows.filter(project_id=project_id, job__isnull=False).order_by("pk").select_for_update(no_key=True)
    left = set(refs) - set(own.values_list("ref", flat=True))
    if left and (other := rows.filter(ref__in=left).exclude(project_id=project_id).first()):
        raise InvalidJob(f"no job of this project has the artifact {other.ref}: send the file")


def add_named(job_id: UUID, refs: Collection[str]) -> None:
    """After `check_named`, for a job that was stored in the same transaction: its files are kept as long as it is."""
    if refs:
        with connection.cursor() as cursor:
            cursor.execute(_ADD_NAMED, [job_id, list(refs)])


def needs(job_id: UUID, ref: object) -> bool:
    """Whether the job refers to this file: a reference alone, which a client may have made up, opens nothing."""
    return is_reference(ref) and JobArtifact.objects.filter(job_id=job_id, ref=ref).exists()


def unneeded(refs: Collection[str]) -> set[str]:
    """Those of these references that no job has."""
    known = JobArtifact.objects.filter(ref__in=refs, job__isnull=False).values_list("ref", flat=True)
    return set(refs) - set(known)
