"""Schedules of recurring jobs: ticks in a time zone, at most one job per tick."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.models import Job, Schedule
from dalston_queue.models.schedule import next_tick
from dalston_queue.orchestrator.scheduler import submit_due
from tests.jobs import make
from tests.jobs.together import at_once


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def test_a_tick_is_in_the_time_zone_of_the_schedule() -> None:
    assert next_tick("0 6 * * *", "Europe/London", at(2026, 7, 1, 0, 0)) == at(2026, 7, 1, 5, 0)
    assert next_tick("0 6 * * *", "UTC", at(2026, 7, 1, 0, 0)) == at(2026, 7, 1, 6, 0)


def test_an_hour_that_the_clock_skips_or_repeats_gives_one_tick() -> None:
    skipped = next_tick("30 1 * * *", "Europe/London", at(2026, 3, 28, 12, 0))
    assert skipped == at(2026, 3, 29, 1, 0)  # 01:30 does not exist on that day: the tick comes with the change
    first = next_tick("30 1 * * *", "Europe/London", at(2026, 10, 24, 12, 0))
    assert first is not None
    assert next_tick("30 1 * * *", "Europe/London", first) == at(2026, 10, 26, 1, 30)


def test_a_bad_expression_or_zone_is_refused_and_named() -> None:
    with pytest.raises(InvalidJob, match="'99 \\* \\* \\* \\*' is no cron expression: Bad minute"):
        next_tick("99 * * * *", "UTC", make.NOW)
    with pytest.raises(InvalidJob, match="there is no time zone 'Mars/Base'"):
        next_tick("* * * * *", "Mars/Base", make.NOW)


def schedule(**changes: object) -> Schedule:
    wanted = {"name": "nightly", "cron": "* * * * *", "stages": [{"stage": "echo", "parameters": {"a": 1}}], **changes}
    return Schedule.objects.create(project=make.project(), **wanted)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_due_schedule_makes_one_job_and_moves_on() -> None:
    row = schedule()
    assert submit_due(timezone.now()) == 0
    late = timezone.now() + timedelta(hours=3)
    assert submit_due(late) == 1
    assert submit_due(late) == 0
    row.refresh_from_db()
    job = Job.objects.get()
    assert (row.last_job_id, job.name, job.tasks.get().parameters) == (job.id, "nightly", {"a": 1})
    assert row.next_at is not None
    assert late < row.next_at <= late + timedelta(minutes=1)


@pytest.mark.django_db
@pytest.mark.usefixtures("no_hints")
def test_a_disabled_schedule_rests_and_a_bad_one_says_why() -> None:
    schedule(enabled=False)
    bad = schedule(name="bad", stages=[{"stage": "a", "after": ["b"]}])
    assert submit_due(timezone.now() + timedelta(hours=1)) == 0
    bad.refresh_from_db()
    assert bad.last_error == "the stage 'a' waits for 'b', which is no stage of this job"


@pytest.mark.django_db
def test_the_admin_refuses_a_bad_expression() -> None:
    with pytest.raises(ValidationError, match="no cron expression"):
        Schedule(project=make.project(), name="x", cron="nonsense", stages=[]).full_clean()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_hints")
def test_eight_orchestrators_that_poll_at_once_make_one_job_per_tick() -> None:
    schedule()
    made = at_once(*[partial(submit_due, timezone.now() + timedelta(hours=3))] * 8)
    assert sum(made) == Job.objects.count() == 1
