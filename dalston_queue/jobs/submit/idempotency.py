"""Idempotency keys: taken for a job in the statement that stores it, or one by one for the jobs of a batch."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from dalston_queue.jobs.errors import IdempotencyConflict

# Taken before its job is made (foreign keys are checked at the end of the transaction): of two requests with one key
# the second waits here for the first to commit, and gets no row. A key past its window is taken over.
TAKE = """
    INSERT INTO dalston_idempotency_key AS k (project_id, key, body_digest, job_id, created_at, expires_at)
    SELECT %(key_project)s, %(key)s, %(key_digest)s, %(key_job)s, %(key_now)s, %(key_until)s"""
"""A FROM may follow."""
TAKE_CONFLICT = """
    ON CONFLICT (project_id, key) DO UPDATE
    SET body_digest = excluded.body_digest, job_id = excluded.job_id,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    WHERE k.expires_at <= excluded.created_at
    RETURNING 1"""

_READ = "SELECT body_digest, job_id FROM dalston_idempotency_key WHERE project_id = %s AND key = %s"


@dataclass(frozen=True, slots=True)
class NewKey:
    """An idempotency key and the job to store under it."""

    key: str
    key_project: UUID
    key_digest: str  # of the request
    key_job: UUID
    key_now: datetime
    key_until: datetime

    def arguments(self) -> dict[str, Any]:
        """The arguments of TAKE."""
        return asdict(self)

    def take(self) -> bool:
        """False: another request has taken it."""
        with connection.cursor() as cursor:
            cursor.execute(TAKE + TAKE_CONFLICT, self.arguments())
            return cursor.fetchone() is not None

    def existing_job(self) -> UUID | None:
        """The job that was stored under the key; None if it has expired meanwhile. Raises IdempotencyConflict."""
        with connection.cursor() as cursor:
            cursor.execute(_READ, [self.key_project, self.key])
            row: tuple[str, UUID] | None = cursor.fetchone()
        if row is None:
            return None
        digest, job_id = row
        if digest != self.key_digest:
            raise IdempotencyConflict(
                f"the idempotency key {self.key!r} was used for another request; "
                f"use a new key, or send the same body as for job {job_id}"
            )
        return job_id
