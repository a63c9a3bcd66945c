"""Lists: how many rows match in all, and the same rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dalston_queue.jobs.queries import search
from dalston_queue.models import Project, Task
from tests.api.conftest import Api
from tests.api.dead_letters.test_dead_letters import dead_letter


def submit(api: Api, count: int) -> list[str]:
    return [api.post("/tasks", {"task_type": "echo"}).json()["task_id"] for _ in range(count)]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("path", ["/tasks", "/jobs"])
def test_the_first_page_says_how_many_there_are(api: Api, path: str) -> None:
    submit(api, 3)
    first = api.get(f"{path}?limit=2").json()
    assert (first["total_count"], first["total_count_is_exact"], len(first["items"])) == (3, True, 2)
    second = api.get(f"{path}?limit=2&cursor={first['next_cursor']}").json()
    assert (second["total_count"], second["total_count_is_exact"], len(second["items"])) == (None, None, 1)


def test_a_count_is_of_the_rows_that_match_and_that_the_token_may_see(
    api: Api, operator: Api, token_for: Callable[..., str]
) -> None:
    submit(api, 2)
    api.post("/tasks", {"task_type": "sleep"})
    submit(Api(token_for("submit", project=Project.objects.create(name="other"))), 1)
    for reader, total in ((api, 3), (operator, 4)):
        assert reader.get("/tasks").json()["total_count"] == total
    assert api.get("/tasks?task_type=echo").json()["total_count"] == 2
    assert api.get("/tasks?task_type=nothing").json()["total_count"] == 0


def test_dead_letters_are_counted_too(api: Api) -> None:
    dead_letter(api)
    found = api.get("/dead_letters").json()
    assert (found["total_count"], found["total_count_is_exact"]) == (1, True)
    assert api.get("/dead_letters?cause=timeout").json()["total_count"] == 0


def test_a_page_of_large_rows_ends_early_and_the_pages_have_each_row_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(search, "ROWS_AT_ONCE", 4)
    made = [
        api.post("/tasks", {"task_type": "echo", "parameters": {"x": "a" * size}}).json()["task_id"]
        for size in [10] * 20 + [40_000] * 7 + [10] * 3
    ]
    pages: list[list[str]] = []
    cursor = ""
    while not pages or cursor:
        page = api.get(f"/tasks?limit=9{cursor}").json()
        pages.append([item["task_id"] for item in page["items"]])
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""
    assert [each for page in pages for each in page] == made[::-1]
    assert max(map(len, pages)) == 9
    assert len(pages[0]) == 6, "three small ones, and large ones until they are too many"
    with CaptureQueriesContext(connection) as queries:
        api.get("/tasks?limit=3")
    assert sum('FROM "dalston_task"' in query["sql"] and "LIMIT 4" in query["sql"] for query in queries) == 1


def test_above_the_limit_a_count_is_at_least_that(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COUNTED", 2)
    submit(api, 3)
    page = api.get("/tasks?limit=1").json()
    assert (page["total_count"], page["total_count_is_exact"]) == (2, False)


def test_a_page_that_has_all_rows_needs_no_second_query(api: Api) -> None:
    submit(api, 2)
    with CaptureQueriesContext(connection) as asked:
        whole = api.get("/tasks?limit=2").json()
    assert (whole["total_count"], whole["total_count_is_exact"]) == (2, True)
    assert not [each for each in asked.captured_queries if "COUNT(" in each["sql"]]


def test_a_count_that_takes_too_long_is_left_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(api, 1)
    rows = Task.objects.extra(where=["pg_sleep(0.2) IS NOT NULL"])
    monkeypatch.setattr(search, "COUNT_TIMEOUT_MS", 50)
    assert search.count_of(rows) == (None, None)
    assert Task.objects.count() == 1, "the connection is still good"


def test_tasks_as_csv_page_by_page(api: Api) -> None:
    made = submit(api, 3)
    first = api.get("/tasks?format=csv&limit=2")
    assert first["Content-Type"] == "text/csv; charset=utf-8"
    cursor = first["X-Next-Cursor"]
    second = api.get(f"/tasks?format=csv&limit=2&cursor={cursor}")
    assert "X-Next-Cursor" not in second
    rows = rows_of(first.content.decode()) + rows_of(second.content.decode())
    assert [row["task_id"] for row in rows] == made[::-1]
    assert rows[0]["parameters"] == "{}"
    assert rows[0]["result"] == ""


def test_jobs_and_dead_letters_as_csv(api: Api) -> None:
    letter, task_id = dead_letter(api), Task.objects.get().id
    [row] = rows_of(api.get("/dead_letters?format=csv").content.decode())
    assert (row["dead_letter_id"], row["task_id"], row["retriable"]) == (str(letter), str(task_id), "true")
    [job] = rows_of(api.get("/jobs?format=csv").content.decode())
    assert job["status"] == "failed"


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\uff1d1", "\uff0b1"]
)
def test_a_text_never_runs_as_a_formula(api: Api, text: str) -> None:
    api.post("/jobs", {"name": text, "stages": [{"stage": "echo"}]})
    [row] = csv.DictReader(io.StringIO(api.get("/jobs?format=csv").content.decode(), newline=""))
    assert row["name"] == f"'{text}"


def test_a_text_that_is_no_formula_stays_as_it_is(api: Api) -> None:
    name = 'a=b, "quoted";\n-1'
    api.post("/jobs", {"name": name, "stages": [{"stage": "echo"}]})
    [row] = csv.DictReader(io.StringIO(api.get("/jobs?format=csv").content.decode(), newline=""))
    assert row["name"] == name


def test_another_format_is_refused(api: Api) -> None:
    assert api.get("/tasks?format=xml").status_code == 422
