"""The page of jobs: its fields are its query string, and a costly search is not repeated with every tick."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.dashboard.jobs.read import JobsReader
from dalston_queue.jobs.queries import search
from dalston_queue.models import ApiToken, Job
from tests.jobs import make

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys]


@pytest.fixture
def page(viewer: Client, broker: Broker) -> Callable[[str], str]:
    def get(query: str = "") -> str:
        return viewer.get(f"/jobs/{query}").content.decode()

    return get


def ids(page: str) -> list[str]:
    return re.findall(r'<tr id="job-([^"]+)"', page)


def test_without_a_job_it_says_so(page: Callable[[str], str]) -> None:
    assert "No job yet" in page("")
    assert "No job matches" in page("?type=nosuch")


def test_each_field_narrows_the_list(page: Callable[[str], str]) -> None:
    one = make.single("echo", parameters={"user": {"id": 42}}).job
    other = make.single("sleep").job
    Job.objects.filter(pk=other.pk).update(status="failed", error="<b>no audio</b>", finished_at=timezone.now())
    assert ids(page("")) == [str(other.pk), str(one.pk)], "newest first"
    assert ids(page("?type=echo")) == ids(page("?payload=user.id:42")) == ids(page("?status=pending")) == [str(one.pk)]
    failed = page("?error=NO+audio&status=failed")
    assert ids(failed) == [str(other.pk)]
    assert "<b>no audio" not in failed
    assert 'value="NO audio"' in failed, "the form shows what was asked"
    assert ids(page("?since=2020-01-01&until=2021-01-01")) == []


def test_an_id_leads_to_its_job(viewer: Client, page: Callable[[str], str]) -> None:
    task = make.single("echo")
    for known in (task.pk, task.job_id):
        assert viewer.get(f"/jobs/?id={known}")["Location"] == f"/jobs/{task.job_id}/"
    assert "No job matches" in page("?id=00000000-0000-7000-8000-000000000000")


def test_an_invalid_field_is_reported_and_not_a_500(viewer: Client, page: Callable[[str], str]) -> None:
    for query in ("status=nosuch", "id=x", "since=never", "payload=x", "after=1", "error=%00"):
        answer = viewer.get(f"/jobs/?{query}")
        assert (answer.status_code, b'role="alert"' in answer.content) == (400, True), query


def test_a_search_that_is_too_wide_says_so(page: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_TIMEOUT_MS", 1)
    monkeypatch.setattr(search, "created_between", lambda rows, *_: rows.extra(where=["pg_sleep(1) IS NOT NULL"]))
    make.single("echo")
    assert "name a status, a type or a time" in page("")


def test_pages_fit_together(page: Callable[[str], str]) -> None:
    made = [str(make.single("echo").job_id) for _ in range(53)]
    first = page("?type=echo")
    older = re.search(r'id="older-next" rel="next" href="([^"]+)"', first).group(1).replace("&amp;", "&")
    assert ids(first) + ids(page(older)) == made[::-1]


def test_a_costly_search_is_not_repeated_while_its_rows_stay_fresh(page: Callable[[str], str]) -> None:
    job = make.single("echo").job
    reader = JobsReader({"error": "", "type": "echo"})
    reader()
    reader._search_again_at *= 1e9
    Job.objects.filter(pk=job.pk).update(status="running")
    with CaptureQueriesContext(connection) as captured:
        [row] = reader().rows
    assert (row.status, len(captured)) == ("running", 1)
    assert "EXISTS" not in captured[0]["sql"]
    cheap = JobsReader({})
    cheap()
    assert cheap._search_again_at == 0.0


def test_over_the_api_the_same_fields_find_the_same(viewer: Client, page: Callable[[str], str]) -> None:
    token, _ = ApiToken.issue(make.project(), "laptop", ["submit"])
    one = make.single("echo", parameters={"user": {"id": 42}}).job
    make.single("sleep")
    Job.objects.filter(pk=one.pk).update(token=token)
    for query in ("task_type=echo", "payload=user.id:42", "token=laptop"):
        found = viewer.get(f"/api/v1/jobs?{query}").json()["items"]
        assert [job["job_id"] for job in found] == [str(one.pk)], query
    assert viewer.get("/api/v1/jobs?payload=.:1").status_code == 422
