"""Accepts jobs: the job, its tasks and its idempotency row in one transaction, so a bad request leaves nothing behind.

Redis is not needed: `job.created` is a hint, sent after the commit, and pending jobs are polled anyway.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from dalston_queue import faults
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.types import Priority
from dalston_queue.ids import uuid7
from dalston_queue.jobs import dag
from dalston_queue.jobs.errors import IdempotencyConflict, InvalidJob, JobsError
from dalston_queue.jobs.spec import JobSpec, StageSpec
from dalston_queue.models import ApiToken, Job, Project, Task
from dalston_queue.redis import get_broker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """One job of a batch."""

    spec: JobSpec
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The job that a request stands for: made now, or made earlier under the same key."""

    job_id: UUID
    task_ids: tuple[UUID, ...]  # in the order of the stages asked for
    created: bool


def submit(
    spec: JobSpec, *, project: Project, token: ApiToken | None = None, idempotency_key: str | None = None
) -> Submission:
    """Accept one job, or raise JobsError."""
    [outcome] = submit_many([Request(spec, idempotency_key)], project=project, token=token)
    if isinstance(outcome, JobsError):
        raise outcome
    return outcome


def submit_many(
    requests: Sequence[Request], *, project: Project, token: ApiToken | None = None
) -> list[Submission | JobsError]:
    """Accept a batch, each job for itself; the outcomes are in the order of the requests."""
    now = timezone.now()
    outcomes: list[Submission | JobsError] = []
    jobs: dict[UUID, Job] = {}
    tasks: dict[UUID, list[Task]] = {}
    with transaction.atomic():
        for request in requests:
            try:
                job, its_tasks = _rows(request.spec, project, token, now)
                earlier = _take_key(request, project, job.id, now)
            except JobsError as error:
                outcomes.append(error)
                continue
            if earlier is None:
                jobs[job.id], tasks[job.id] = job, its_tasks
                outcomes.append(Submission(job.id, tuple(task.id for task in its_tasks), created=True))
            else:
                # The key's job may be an earlier one of this very batch, not stored yet.
                rows = tasks.get(earlier) or Task.objects.filter(job_id=earlier).order_by("id").only("id")
                outcomes.append(Submission(earlier, tuple(task.id for task in rows), created=False))
        Job.objects.bulk_create(jobs.values())
        Task.objects.bulk_create(task for its_tasks in tasks.values() for task in its_tasks)
        if jobs:
            transaction.on_commit(lambda: _hint(list(jobs)))
    return outcomes


# The settings that fill in retries and timeout, by priority.
_DEFAULTS = {
    Priority.HIGH: ("DALSTON_RETRIES_HIGH", "DALSTON_TIMEOUT_HIGH_S"),
    Priority.MEDIUM: ("DALSTON_RETRIES_MEDIUM", "DALSTON_TIMEOUT_MEDIUM_S"),
    Priority.LOW: ("DALSTON_RETRIES_LOW", "DALSTON_TIMEOUT_LOW_S"),
}


def task_row(stage: StageSpec, job: Job, now: datetime) -> Task:
    """The row of a stage, with what it left open filled in from its job and the settings."""
    priority = stage.priority or Priority(job.priority)
    retries, timeout = _DEFAULTS[priority]
    _storable(stage.parameters, f"the parameters of stage {stage.stage!r}")
    return Task(
        id=uuid7(),
        job=job,
        stage=stage.stage,
        queue=dag.queue_of(stage),
        task_type=stage.task_type or dag.queue_of(stage),
        after=list(dict.fromkeys(stage.after)),
        required=stage.required,
        weight=stage.weight,
        priority=priority,
        effective_priority=priority,
        required_capabilities=sorted(set(stage.required_capabilities)),
        parameters=stage.parameters,
        timeout_seconds=stage.timeout_seconds or getattr(settings, timeout),
        max_retries=getattr(settings, retries) if stage.max_retries is None else stage.max_retries,
        scheduled_at=stage.scheduled_at,
        created_at=now,
    )


def _rows(spec: JobSpec, project: Project, token: ApiToken | None, now: datetime) -> tuple[Job, list[Task]]:
    dag.check(spec.stages)
    _storable(spec.parameters, "the job's parameters")
    job = Job(
        id=uuid7(),
        project=project,
        token=token,
        name=spec.name,
        priority=spec.priority,
        parameters=spec.parameters,
        created_at=now,
    )
    job.trace_id = spec.trace_id or job.id.hex
    return job, [task_row(stage, job, now) for stage in spec.stages]


def _storable(value: Mapping[str, Any], what: str) -> None:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidJob(f"{what} can't be stored as JSON: {error}") from None
    if "\\u0000" in text:
        raise InvalidJob(f"{what} contain the character U+0000, which Postgres can't store")


# The row is taken before its job is made (the foreign key is checked at commit): of two requests with one key the
# second waits here for the first to commit, and then finds it. A key past its window is taken over.
_TAKE_KEY = """
    INSERT INTO dalston_idempotency_key AS k (project_id, key, body_digest, job_id, created_at, expires_at)
    VALUES (%(project)s, %(key)s, %(digest)s, %(job)s, %(now)s, %(until)s)
    ON CONFLICT (project_id, key) DO UPDATE
    SET body_digest = excluded.body_digest, job_id = excluded.job_id,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    WHERE k.expires_at <= excluded.created_at
    RETURNING job_id"""

_READ_KEY = "SELECT body_digest, job_id FROM dalston_idempotency_key WHERE project_id = %s AND key = %s"


def _take_key(request: Request, project: Project, job_id: UUID, now: datetime) -> UUID | None:
    """Take the request's key for this job; returns the earlier job if the key is taken."""
    if request.idempotency_key is None:
        return None
    digest = _digest(request.spec)
    arguments: dict[str, Any] = {
        "project": project.pk,
        "key": request.idempotency_key,
        "digest": digest,
        "job": job_id,
        "now": now,
        "until": now + timedelta(seconds=settings.DALSTON_IDEMPOTENCY_WINDOW_S),
    }
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_KEY, arguments)
        if cursor.fetchone() is not None:
            return None
        cursor.execute(_READ_KEY, [project.pk, request.idempotency_key])
        row: tuple[str, UUID] = cursor.fetchone()
        earlier_digest, earlier = row
    if earlier_digest != digest:
        raise IdempotencyConflict(
            f"the idempotency key {request.idempotency_key!r} was used for another request; "
            f"use a new key, or send the same body as for job {earlier}"
        )
    return earlier


def _digest(spec: JobSpec) -> str:
    """Equal for equal requests. The trace id is left out: it names the request's journey, not what was asked for."""
    asked = [spec.name, spec.priority, spec.parameters, [_asked(stage) for stage in spec.stages]]
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _asked(stage: StageSpec) -> list[Any]:
    return [getattr(stage, name) for name in StageSpec.__dataclass_fields__]


def _hint(job_ids: list[UUID]) -> None:
    faults.point("submit.committed")
    try:
        get_broker().publish_jobs_created(str(job_id) for job_id in job_ids)
    except BrokerError as error:
        log.warning(
            "the hint job.created was not sent; the jobs will be found by polling", jobs=len(job_ids), error=str(error)
        )
