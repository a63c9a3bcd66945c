"""Jobs advance with their tasks: dependents become ready, jobs end, failed optional stages don't matter."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from dalston_queue.jobs.lifecycle.advance import Advanced, advance
from dalston_queue.jobs.lifecycle.status import lock_jobs
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import Job, Task
from tests.jobs import make
from tests.jobs.make import NOW, statuses
from tests.jobs.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_hints")]


def finish(job: Job, stage: str, move: str = "complete") -> Advanced:
    """What an orchestrator does with the event of a stage that is over."""
    with transaction.atomic():
        lock_jobs([job.id])
        make.move(move, [Task.objects.get(job=job, stage=stage)], result="null", message="broken")
        return advance([job.id], NOW)


def test_claiming_a_job_makes_its_first_stages_ready_and_only_once() -> None:
    job = make.dag(a="", b="", c="a b")
    assert len(make.claim(job)) == 2
    assert make.claim(job) == []
    assert statuses(job) == {"a": "ready", "b": "ready", "c": "pending"}


def test_a_child_is_ready_when_its_last_parent_is_over() -> None:
    job = make.dag(a="", b="", c="a b")
    make.claim(job)
    assert finish(job, "a").ready == []
    assert len(finish(job, "b").ready) == 1
    assert statuses(job)["c"] == "ready"


def test_a_job_is_completed_when_all_its_tasks_are() -> None:
    job = make.dag(a="", b="a")
    make.claim(job)
    finish(job, "a")
    assert finish(job, "b").ended == [job.id]
    job.refresh_from_db()
    assert (job.status, job.progress, job.finished_at) == ("completed", 1.0, NOW)


def test_progress_is_the_weighted_share_of_what_is_over() -> None:
    job = make.job_of(StageSpec(stage="a", weight=1), StageSpec(stage="b", weight=3, after=("a",)))
    make.claim(job)
    finish(job, "a")
    job.refresh_from_db()
    assert job.progress == 0.25


def test_a_dead_required_task_fails_the_job_and_skips_the_waiting_tasks() -> None:
    job = make.dag(a="", b="a", c="b")
    make.claim(job)
    assert finish(job, "a", "dead_letter").ended == [job.id]
    job.refresh_from_db()
    assert (job.status, job.error) == ("failed", "stage a: broken")
    assert statuses(job) == {"a": "dead_letter", "b": "skipped", "c": "skipped"}


def test_a_dead_required_task_stops_its_siblings_first() -> None:
    job = make.dag(a="", b="", c="b")
    make.claim(job)
    make.move("start", Task.objects.filter(job=job, stage="b"))
    assert finish(job, "a", "dead_letter").stopping == [job.id]
    job.refresh_from_db()
    assert job.status == "cancelling"
    assert Task.objects.get(job=job, stage="b").cancel_requested_at == NOW
    assert finish(job, "b", "cancel").ended == [job.id]
    job.refresh_from_db()
    assert (job.status, job.error) == ("failed", "stage a: broken")


def test_an_optional_task_that_failed_does_not_stop_its_dependents() -> None:
    job = make.job_of(StageSpec(stage="a", required=False), StageSpec(stage="b", after=("a",)))
    make.claim(job)
    assert len(finish(job, "a", "fail").ready) == 1
    finish(job, "b")
    job.refresh_from_db()
    assert job.status == "completed"


def test_a_cancelled_required_task_cancels_the_job() -> None:
    job = make.dag(a="", b="a")
    make.claim(job)
    finish(job, "a", "cancel")
    job.refresh_from_db()
    assert job.status == "cancelled"
    assert statuses(job) == {"a": "cancelled", "b": "skipped"}


def test_a_stage_with_a_time_in_the_future_is_scheduled_not_ready() -> None:
    later = NOW + timedelta(hours=1)
    job = make.job_of(StageSpec(stage="a", scheduled_at=later), StageSpec(stage="b", scheduled_at=NOW))
    assert len(make.claim(job)) == 1
    assert statuses(job) == {"a": "scheduled", "b": "ready"}


@pytest.mark.django_db(transaction=True)
def test_two_parents_that_finish_at_the_same_moment_make_their_child_ready_once() -> None:
    """Each transaction starts before the other commits. Without the lock both would see the other parent unfinished."""
    jobs = [make.dag(a="", b="", c="a b") for _ in range(25)]
    make.claim(*jobs)
    for job in jobs:
        done = at_once(partial(finish, job, "a"), partial(finish, job, "b"))
        assert len(done[0].ready + done[1].ready) == 1
        assert statuses(job)["c"] == "ready"
