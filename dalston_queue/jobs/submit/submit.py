"""Accepts jobs: the job, its tasks and its idempotency row in one transaction, so a bad request leaves nothing behind.

Redis is not needed: `job.created` is a hint, sent after the commit, and pending jobs are polled anyway.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.artifacts.reference import references_in
from dalston_queue.broker.protocol.keys import lane_name
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.ids import uuid7
from dalston_queue.jobs import artifacts
from dalston_queue.jobs.errors import IdempotencyConflict, JobsError, StorageFull
from dalston_queue.jobs.lifecycle import dag, transition_log, transition_spans
from dalston_queue.jobs.storage import check_room
from dalston_queue.jobs.submit import hints, lanes
from dalston_queue.jobs.submit.idempotency import NewKey
from dalston_queue.jobs.submit.rows import NewJob, NewTask, insert_job, insert_jobs
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.storable import storable
from dalston_queue.jobs.webhooks.deliveries import Callbacks
from dalston_queue.metrics.tasks import SUBMITTED
from dalston_queue.models import ApiToken, Project, Task
from dalston_queue.turns import let_others_pass

Rows = tuple[NewJob, list[NewTask]]


@dataclass(frozen=True, slots=True)
class Request:
    """One job of a batch."""

    spec: JobSpec
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The job of a request: stored now, or earlier under the same idempotency key."""

    job_id: UUID
    task_ids: tuple[UUID, ...]  # in the order of the stages asked for
    created: bool
    # The rows, and when they were stored, if that was now: showing them needs no query.
    tasks: tuple[NewTask, ...] = field(default=(), compare=False)
    at: datetime | None = field(default=None, compare=False)


def submit(
    spec: JobSpec,
    *,
    project: Project,
    token: ApiToken | None = None,
    idempotency_key: str | None = None,
    brings: Collection[str] = (),
) -> Submission:
    """Accept one job by one statement, or raise JobsError. `brings`: the artifacts that came with this request."""
    now = timezone.now()
    job, tasks = _rows(spec, project, token, Callbacks(project))
    [refused] = lanes.register([_lanes_of(tasks)], project.pk)
    if refused:
        raise refused
    key = None if idempotency_key is None else _new_key(idempotency_key, spec, project, job.id, now)
    try:
        check_room(project)
    except StorageFull:
        if key is None or not (earlier := key.existing_job()):
            raise
        return Submission(earlier, _tasks_of(earlier, {}), created=False)
    refs = _references(job, tasks) - set(brings)
    with transaction.atomic() if refs else nullcontext():
        artifacts.check_named(project.pk, refs)
        while not insert_job(job, tasks, now, key=key):
            if key is not None and (earlier := key.existing_job()):
                return Submission(earlier, _tasks_of(earlier, {}), created=False)
        artifacts.add_named(job.id, refs)
    transition_log.jobs_submitted([(job.id, job.trace_id, len(tasks))])
    transition_spans.jobs_submitted([job], now)
    transaction.on_commit(lambda: _accepted([job.id], tasks))
    return Submission(job.id, tuple(task.id for task in tasks), created=True, tasks=tuple(tasks), at=now)


def submit_many(
    requests: Sequence[Request], *, project: Project, token: ApiToken | None = None
) -> list[Submission | JobsError]:
    """Accept a batch, each job for itself; the outcomes are in the order of the requests. Raises StorageFull."""
    check_room(project)
    now = timezone.now()
    callbacks = Callbacks(project)
    made = _within_limits([_made(request.spec, project, token, callbacks) for request in requests], project)
    named = [set() if isinstance(each, JobsError) else _references(*each) for each in made]
    outcomes: list[Submission | JobsError] = []
    jobs: dict[UUID, NewJob] = {}
    tasks: dict[UUID, list[NewTask]] = {}
    # Without keys there is one statement, which needs no transaction: two round trips to Postgres less.
    in_one = any(named) or any(request.idempotency_key for request in requests)
    with transaction.atomic() if in_one else nullcontext():
        made = [_refused_names(rows, project, refs) or rows for rows, refs in zip(made, named, strict=True)]
        taken = _take_keys(requests, made, project, now)
        for rows, earlier in zip(made, taken, strict=True):
            if isinstance(rows, JobsError):
                outcomes.append(rows)
            elif isinstance(earlier, JobsError):
                outcomes.append(earlier)
            elif earlier is None:
                job, its_tasks = rows
                jobs[job.id], tasks[job.id] = job, its_tasks
                ids = tuple(task.id for task in its_tasks)
                outcomes.append(Submission(job.id, ids, created=True, tasks=tuple(its_tasks), at=now))
            else:
                outcomes.append(Submission(earlier, _tasks_of(earlier, tasks), created=False))
        if jobs:
            all_tasks = [task for its_tasks in tasks.values() for task in its_tasks]
            insert_jobs(list(jobs.values()), all_tasks, now)
            for rows, refs in zip(made, named, strict=True):
                if not isinstance(rows, JobsError) and rows[0].id in jobs:
                    artifacts.add_named(rows[0].id, refs)
            transition_log.jobs_submitted((job.id, job.trace_id, len(tasks[job.id])) for job in jobs.values())
            transition_spans.jobs_submitted(jobs.values(), now)
            transaction.on_commit(lambda: _accepted(list(jobs), all_tasks))
    return outcomes


def _references(job: NewJob, tasks: Sequence[NewTask]) -> set[str]:
    """Of artifacts, in all parameters."""
    encoded = [job.parameters, *(task.parameters for task in tasks)]
    return set().union(*(references_in(bytes(parameters)) for parameters in encoded))


def _refused_names(rows: Rows | JobsError, project: Project, refs: set[str]) -> JobsError | None:
    if isinstance(rows, JobsError):
        return None
    try:
        artifacts.check_named(project.pk, refs)
    except JobsError as error:
        return error
    return None


def _tasks_of(job_id: UUID, of_this_batch: Mapping[UUID, Sequence[NewTask]]) -> tuple[UUID, ...]:
    """The tasks of a job that was submitted before, perhaps earlier in this batch and not stored yet."""
    if job_id in of_this_batch:
        return tuple(task.id for task in of_this_batch[job_id])
    return tuple(Task.objects.filter(job_id=job_id).order_by("id").values_list("id", flat=True))


# The settings that fill in retries and timeout, by priority.
_DEFAULTS = {
    Priority.HIGH: ("DALSTON_RETRIES_HIGH", "DALSTON_TIMEOUT_HIGH_S"),
    Priority.MEDIUM: ("DALSTON_RETRIES_MEDIUM", "DALSTON_TIMEOUT_MEDIUM_S"),
    Priority.LOW: ("DALSTON_RETRIES_LOW", "DALSTON_TIMEOUT_LOW_S"),
}


@dataclass(frozen=True, slots=True)
class OfJob:
    """What the stages of a job share, or inherit from it."""

    id: UUID
    project_id: UUID
    priority: Priority
    concurrency_key: str = ""


def task_row(stage: StageSpec, job: OfJob) -> NewTask:
    """The row of a stage, with defaults from its job and the settings."""
    priority = stage.priority or job.priority
    retries, timeout = _DEFAULTS[priority]
    return NewTask(
        id=uuid7(),
        job_id=job.id,
        project_id=job.project_id,
        stage=stage.stage,
        queue=dag.queue_of(stage),
        lane=lane_name(dag.queue_of(stage), stage.required_capabilities),
        task_type=stage.task_type or dag.queue_of(stage),
        after=tuple(dict.fromkeys(stage.after)),
        required=stage.required,
        weight=stage.weight,
        priority=priority,
        required_capabilities=tuple(sorted(set(stage.required_capabilities))),
        concurrency_key=job.concurrency_key if stage.concurrency_key is None else stage.concurrency_key,
        parameters=storable(stage.parameters, f"the parameters of stage {stage.stage!r}"),
        timeout_seconds=stage.timeout_seconds or getattr(settings, timeout),
        max_retries=getattr(settings, retries) if stage.max_retries is None else stage.max_retries,
        scheduled_at=stage.scheduled_at,
    )


def _made(spec: JobSpec, project: Project, token: ApiToken | None, callbacks: Callbacks) -> Rows | JobsError:
    let_others_pass()
    try:
        return _rows(spec, project, token, callbacks)
    except JobsError as error:
        return error


def _rows(spec: JobSpec, project: Project, token: ApiToken | None, callbacks: Callbacks) -> Rows:
    dag.check(spec.stages)
    dag.check_concurrency_key(spec.concurrency_key, "the job")
    job_id = uuid7()
    job = NewJob(
        id=job_id,
        project_id=project.pk,
        token_id=None if token is None else token.pk,
        name=spec.name,
        priority=spec.priority,
        parameters=storable(spec.parameters, "the job's parameters"),
        trace_id=spec.trace_id or token_hex(16),  # all of it random: a share of traces is chosen by its bits
        callback_url=callbacks.checked(spec.callback_url) if spec.callback_url else "",
    )
    of_job = OfJob(job_id, project.pk, Priority(spec.priority), spec.concurrency_key)
    return job, [task_row(stage, of_job) for stage in spec.stages]


def _within_limits(made: Sequence[Rows | JobsError], project: Project) -> list[Rows | JobsError]:
    refused = lanes.register([[] if isinstance(each, JobsError) else _lanes_of(each[1]) for each in made], project.pk)
    return [refusal or each for each, refusal in zip(made, refused, strict=True)]


def _lanes_of(tasks: Sequence[NewTask]) -> set[str]:
    return {task.lane for task in tasks}


def _take_keys(
    requests: Sequence[Request], made: Sequence[Rows | JobsError], project: Project, now: datetime
) -> list[UUID | JobsError | None]:
    """The result of _take_key for each request. Keys are taken in sorted order: two batches with the same keys would
    otherwise deadlock."""
    taken: list[UUID | JobsError | None] = [None] * len(requests)
    for index in sorted(range(len(requests)), key=lambda index: requests[index].idempotency_key or ""):
        rows = made[index]
        if isinstance(rows, JobsError):
            continue
        try:
            taken[index] = _take_key(requests[index], project, rows[0].id, now)
        except IdempotencyConflict as error:
            taken[index] = error
    return taken


def _take_key(request: Request, project: Project, job_id: UUID, now: datetime) -> UUID | None:
    """Take the request's key for this job; returns the earlier job if the key is taken."""
    if request.idempotency_key is None:
        return None
    key = _new_key(request.idempotency_key, request.spec, project, job_id, now)
    # Inside the transaction a key that is taken is locked: it can't expire before it is read.
    return None if key.take() else key.existing_job()


def _new_key(key: str, spec: JobSpec, project: Project, job_id: UUID, now: datetime) -> NewKey:
    until = now + timedelta(seconds=settings.DALSTON_IDEMPOTENCY_WINDOW_S)
    return NewKey(
        key=key, key_project=project.pk, key_digest=_digest(spec), key_job=job_id, key_now=now, key_until=until
    )


def _digest(spec: JobSpec) -> str:
    """Equal for equal requests. The trace id is left out: a repeated request may have another one."""
    without = spec.ignored_by_keys
    parameters = _without(spec.parameters, without)
    asked = [spec.name, spec.priority, parameters, [_asked(stage, without) for stage in spec.stages]]
    if spec.callback_url:
        asked.append(spec.callback_url)
    if spec.concurrency_key:
        asked.append({"concurrency_key": spec.concurrency_key})
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def _asked(stage: StageSpec, without: tuple[str, ...]) -> list[Any]:
    fields = {name: getattr(stage, name) for name in StageSpec.__dataclass_fields__}
    return [*{**fields, "parameters": _without(stage.parameters, without)}.values()]


def _without(parameters: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    return {name: value for name, value in parameters.items() if name not in names} if names else parameters


def _accepted(job_ids: list[UUID], tasks: Sequence[NewTask]) -> None:
    for priority, number in Counter(task.priority for task in tasks).items():
        SUBMITTED.labels(priority).inc(number)
    crash_points.point("submit.committed")
    hints.send(job_ids)
