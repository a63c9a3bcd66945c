"""Projects, jobs and states for tests, made the way the system makes them: through submit and the lifecycle."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction

from dalston_queue.jobs.lifecycle.advance import claim_jobs
from dalston_queue.jobs.lifecycle.status import Change, lock_jobs, move_tasks
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, Project, Task

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def project(name: str = "tests") -> Project:
    return Project.objects.get_or_create(name=name)[0]


def single(task_type: str = "echo", *, of: str = "tests", **wanted: Any) -> Task:
    """A job of one, pending."""
    return Task.objects.get(job_id=submit(single_task(task_type, **wanted), project=project(of)).job_id)


def dag(**after: str) -> Job:
    """A job from stage names and what each waits for: dag(a="", b="a", c="a b")."""
    stages = tuple(StageSpec(stage=name, queue="echo", after=tuple(parents.split())) for name, parents in after.items())
    return job_of(*stages)


def job_of(*stages: StageSpec) -> Job:
    return Job.objects.get(id=submit(JobSpec(name="test", stages=stages), project=project()).job_id)


def claim(*jobs: Job) -> list[UUID]:
    """As an orchestrator does; returns the tasks that are ready."""
    with transaction.atomic():
        return [moved.task_id for moved in claim_jobs([job.id for job in jobs], NOW).ready]


def move(name: str, tasks: Iterable[Task], **more: Any) -> list[UUID]:
    """Move tasks by a transition at their present attempt; returns those that moved."""
    tasks = list(tasks)
    if "result" in more:
        more["result"] = msgspec.Raw(more["result"])
    with transaction.atomic():
        lock_jobs(task.job_id for task in tasks)
        changes = [Change(task_id=task.id, attempt=task.attempt, at=NOW, **more) for task in tasks]
        return [moved.task_id for moved in move_tasks(name, changes)]


def statuses(job: Job) -> dict[str, str]:
    return dict(Task.objects.filter(job=job).order_by("stage").values_list("stage", "status"))
