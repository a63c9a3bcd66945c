"""The figures of the last hour on the overview: right, live, empty where nothing is known, and cheap."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dalston_queue.dashboard.overview.figures import NAMES, failure_rate, figure_fragments, utilisation
from dalston_queue.dashboard.overview.read import latest
from dalston_queue.dashboard.overview.values import Past
from dalston_queue.dashboard.parts.charts import History
from dalston_queue.models import Sample

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]

NUMBERS: dict[str, Any] = {
    "completed": 30, "failed": 6, "wait_p50": 1.5, "wait_p95": 20, "wait_p99": 61, "run_p50": 4, "run_p95": 8,
    "run_p99": 9, "retry_timeout": 3, "retry_error": 1, "age_10": 5, "age_60": 0, "age_600": 2, "age_3600": 0,
    "age_more": 1, "age_unread": 0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tasks", "workers"):
        monkeypatch.setattr(latest, f"_{name}", History(name, fresh_s=-1.0))


def sample(kind: str = "tasks", minutes_ago: int = 1, **numbers: float) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    Sample.objects.create(kind=kind, name="all", at=at, numbers=numbers)


def figures(client: Client) -> dict[str, str]:
    """The text of each figure as a reader sees and hears it."""
    page = client.get("/").content.decode()
    found = {name: re.search(rf'<div id="figure-{name}" class="figure">(.*?)</div>', page, re.DOTALL) for name in NAMES}
    return {name: html.unescape(re.sub(r"<[^>]+>", " ", one[1])) for name, one in found.items() if one}


def test_each_shows_its_numbers(viewer: Client) -> None:
    sample(minutes_ago=2, **NUMBERS)
    sample(**NUMBERS)
    sample("workers", capacity=8, running=6)
    found = figures(viewer)
    for name, words in {
        "throughput": ("completed 30", "failed 6"),
        "failures": ("failed attempts 25 %", "alert above 25 %"),
        "waits": ("p50 1.50 s", "p95 20.0 s", "p99 1 min 01 s"),
        "runs": ("p50 4.00 s", "p95 8.00 s", "p99 9.00 s"),
        "ages": ("up to 10 s", "5", "over 60 min", "1"),
        "retries": ("timeout", "6", "error", "2"),
        "utilisation": ("slots in use 75 %", "alert above 90 %"),
    }.items():
        for word in words:
            assert word in re.sub(r"\s+", " ", found[name]), (name, word, found[name])
    assert found["retries"].index("timeout") < found["retries"].index("error"), "the most frequent first"


def test_before_the_first_sample_each_says_why_it_is_empty(viewer: Client) -> None:
    found = figures(viewer)
    assert found.keys() == set(NAMES)
    assert all("No sample yet" in text for text in found.values()), found


def test_an_hour_in_which_nothing_happened_is_not_the_same_as_no_sample(viewer: Client) -> None:
    idle: dict[str, Any] = {name: 0 for name in NUMBERS if name.startswith("age_")}
    sample(completed=0, failed=0, **idle)
    sample("workers", capacity=0, running=0)
    found = figures(viewer)
    assert "completed 0" in re.sub(r"\s+", " ", found["throughput"])
    assert "No attempt ended" in found["failures"]
    assert "No task that had started ended" in found["waits"]
    assert "No task completed" in found["runs"]
    assert "Nothing waits." in found["ages"]
    assert "No retry" in found["retries"]
    assert "No engine was ready" in found["utilisation"]


def test_without_postgres_they_are_not_known() -> None:
    assert all("Not known" in fragment.html for fragment in figure_fragments(None))


def test_ages_that_were_not_read_are_the_youngest(viewer: Client) -> None:
    sample(**{**NUMBERS, "age_unread": 9000})
    assert re.search(r"younger, not read\s+9000", figures(viewer)["ages"])


def test_a_rate_is_of_attempts_and_unknown_without_one() -> None:
    assert failure_rate({"completed": 6, "failed": 1, "retry_timeout": 2, "retry_gpu_oom": 1}) == 0.4
    assert failure_rate({"completed": 0, "failed": 0}) is None
    assert utilisation({"capacity": 0, "running": 0}) is None
    assert utilisation({"capacity": 4, "running": 9}) == 1


def test_a_figure_is_sent_again_only_when_its_numbers_changed() -> None:
    def drawn(numbers: dict[str, Any]) -> dict[str, str]:
        return {each.id: each.html for each in figure_fragments(Past(tasks=[numbers], workers=[]))}

    before, after = drawn(NUMBERS), drawn({**NUMBERS, "retry_error": 5})
    assert before == drawn(dict(NUMBERS))
    assert {name for name in before if before[name] != after[name]} == {"figure-retries", "figure-failures"}


def test_they_cost_two_reads_of_an_index_whatever_the_table_holds(viewer: Client) -> None:
    at = timezone.now().replace(second=0, microsecond=0)
    Sample.objects.bulk_create(
        Sample(kind=kind, name=name, at=at - timedelta(minutes=back), numbers=NUMBERS)
        for kind, name in (*(("queue", f"q{number}") for number in range(10)), ("tasks", "all"), ("workers", "all"))
        for back in range(1440)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE dalston_sample")
    with CaptureQueriesContext(connection) as asked:
        latest._tasks.get(), latest._workers.get()
    assert len(asked) == 2
    for query in asked:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + query["sql"])
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "one_sample_a_minute" in plan, plan
        assert "Seq Scan" not in plan, plan
