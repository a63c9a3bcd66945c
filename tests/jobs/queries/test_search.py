"""Search of jobs: by each field, along an index where there is one, and with a time limit."""

from datetime import UTC, datetime, timedelta
from datetime import timezone as offset_of
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dalston_queue.jobs.errors import InvalidSearch, SearchTooWide
from dalston_queue.jobs.queries import search
from dalston_queue.jobs.queries.search import JobSearch, created_between, find_jobs, page_of
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import ApiToken, Job, Task
from tests.jobs import make
from tests.jobs.test_indexes import _MANY_TASKS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_hints")]

# 20 000 finished jobs, one a minute, with the ids of their time.
_MONTHS = """
    INSERT INTO dalston_job
        (id, project_id, name, status, priority, parameters, trace_id, progress, error, created_at, finished_at)
    SELECT (lpad(to_hex(ms), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid, %s,
        'old', 'completed', 'medium', '{}', '', 1, '', at, at
    FROM (
        SELECT n, at, (extract(epoch FROM at) * 1000)::bigint AS ms
        FROM generate_series(1, 20000) AS n, LATERAL (SELECT now() - n * interval '1 minute' AS at) AS minute
    ) AS many"""


def found(**wanted: Any) -> set[Any]:
    return {job.pk for job in find_jobs(JobSearch(**wanted))}


def test_by_each_field() -> None:
    token, _ = ApiToken.issue(make.project(), "laptop", ["submit"])
    parameters = {"user": {"id": 42}, "file": "a.wav"}
    one = submit(single_task("echo", parameters=parameters), project=make.project(), token=token).job_id
    other = make.single("sleep").job_id
    task = Task.objects.get(job_id=one)
    Job.objects.filter(pk=other).update(status="failed", error="CUDA out of memory", finished_at=timezone.now())
    for wanted in (
        {"id": one},
        {"id": task.pk},
        {"task_type": "echo"},
        {"name": "echo"},
        {"payload": "user.id:42"},
        {"payload": "file:a.wav", "task_type": "echo"},
        {"token": "laptop"},
        {"status": "pending"},
    ):
        assert found(**wanted) == {one}, wanted
    assert found(error="out OF memory") == found(status="failed") == {other}
    assert found(payload="file:a.wav", task_type="sleep") == set()


def test_by_time() -> None:
    job = make.single("echo").job
    minute = timedelta(minutes=1)
    assert found(created_after=job.created_at, created_before=job.created_at + minute) == {job.pk}
    assert found(created_before=job.created_at) == found(created_after=job.created_at + minute) == set()
    assert found(created_after=datetime(1, 1, 1, tzinfo=UTC) + 2 * minute) == {job.pk}
    assert found(created_before=datetime(9999, 12, 31, tzinfo=UTC)) == {job.pk}


@pytest.mark.parametrize("offset", [timedelta(0), timedelta(hours=14), timedelta(hours=-14)])
def test_by_the_first_and_the_last_time_that_can_be_written(offset: timedelta) -> None:
    job = make.single("echo").job
    zone = offset_of(offset)
    first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
    assert found(created_after=first, created_before=last) == {job.pk}
    assert found(created_after=last) == found(created_before=first) == set()


def test_a_time_without_an_offset_is_utc() -> None:
    job = make.single("echo").job
    there = job.created_at.astimezone(UTC).replace(tzinfo=None)
    assert found(created_after=there, created_before=there + timedelta(seconds=1)) == {job.pk}
    assert found(created_before=there) == set()


@pytest.mark.parametrize("payload", ["", "user", ":x", "a..b:1", "a.:1", "x\x00:1"])
def test_a_field_that_makes_no_sense_is_refused(payload: str) -> None:
    with pytest.raises(InvalidSearch, match=r"user\.id:42"):
        find_jobs(JobSearch(payload=payload))


def test_pages_fit_together_while_new_jobs_come() -> None:
    jobs = [make.single("echo").job_id for _ in range(5)]
    first, after = page_of(Job.objects.all(), 2, None)
    make.single("echo")
    second, later = page_of(Job.objects.all(), 2, after)
    third, end = page_of(Job.objects.all(), 2, later)
    assert [job.pk for page in (first, second, third) for job in page] == jobs[::-1]
    assert end is None


def test_a_search_that_takes_too_long_is_stopped_and_the_connection_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    make.single("echo")
    slow = Job.objects.extra(where=["pg_sleep(1) IS NOT NULL"])
    with monkeypatch.context() as patch:
        patch.setattr(search, "SEARCH_TIMEOUT_MS", 20)
        with pytest.raises(SearchTooWide, match="name a status"):
            page_of(slow, 10, None)
    assert page_of(Job.objects.all(), 10, None)[1] is None


def test_each_search_goes_along_an_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_MONTHS, [make.project().pk])
        cursor.execute(_MANY_TASKS)
        cursor.execute("ANALYZE dalston_job, dalston_task")

    def plan(**wanted: Any) -> str:
        return find_jobs(JobSearch(**wanted)).order_by("-pk")[:51].explain()

    day = timezone.now() - timedelta(days=1)
    hour = timedelta(hours=1)
    expected = {
        "Backward using dalston_job_pkey": plan(),
        "job_ended_badly": plan(status="failed"),
        "job_pending": plan(status="pending"),
        "Index Cond: ((id >=": plan(created_after=day, created_before=day + hour),
        "one_task_per_stage": plan(task_type="old"),
    }
    for index, explained in expected.items():
        assert index in explained, explained
        assert "Seq Scan" not in explained, explained
    in_span = created_between(Task.objects.all(), day, day + hour).explain()
    assert "id >=" in in_span
