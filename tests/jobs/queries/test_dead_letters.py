"""Patterns of dead letters: counted by what they have in common, for one project or all, at a bounded cost."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.jobs.operator.replay import Filter, matching
from dalston_queue.jobs.queries import dead_letters
from dalston_queue.jobs.queries.dead_letters import EXAMINED, KINDS, Patterns, patterns, sql_of, values_of
from dalston_queue.models import DeadLetter, Project

pytestmark = pytest.mark.django_db

NODES = ("gpu-1.example.internal", "gpu-2")


def dead(**more: Any) -> DeadLetter:
    fields = {"queue": "echo", "cause": "error", "fingerprint": "f1", "created_at": timezone.now()} | more
    return DeadLetter.objects.create(**fields)


def values(found: Patterns, kind: str) -> dict[str, tuple[int, int]]:
    return {each.value: (each.count, each.retriable) for each in found.by[kind]}


def test_they_are_counted_by_all_that_they_have_in_common() -> None:
    calls = Project.objects.create(name="calls")
    for number in range(3):
        dead(cause="timeout", project=calls, engine_id=f"{NODES[0]}.demo.0.boot{number}")
    dead(cause="rejected", retriable=False, queue="merge", engine_id=f"{NODES[1]}.merge.1.x")
    dead(cause="rejected", retriable=False, engine_id="a-worker-over-http")
    found = patterns(Filter(), timezone.now())
    assert (found.count, found.retriable, found.is_whole) == (5, 3, True)
    assert values(found, "cause") == {"timeout": (3, 3), "rejected": (2, 0)}
    assert [each.value for each in found.by["cause"]] == ["timeout", "rejected"], "the most frequent first"
    assert values(found, "queue") == {"echo": (4, 3), "merge": (1, 0)}
    assert values(found, "node") == {NODES[0]: (3, 3), NODES[1]: (1, 0)}
    slots = {f"{NODES[0]}.demo.0": (3, 3), f"{NODES[1]}.merge.1": (1, 0), "a-worker-over-http": (1, 0)}
    assert values(found, "engine") == slots, "the processes of a slot are one"
    assert values(found, "project") == {"calls": (3, 3)}


def test_each_pattern_is_a_filter_that_finds_as_many() -> None:
    calls, other = (Project.objects.create(name=name) for name in ("calls", "other"))
    for cause, queue, node, project, retriable in (
        ("timeout", "echo", NODES[0], calls, True),
        ("timeout", "merge", NODES[1], other, True),
        ("rejected", "echo", "example", calls, False),  # a part of another node's name
    ):
        dead(cause=cause, queue=queue, engine_id=f"{node}.demo.0.b", project=project, retriable=retriable)
    found = patterns(Filter(), timezone.now())
    for kind in KINDS:
        assert found.by[kind], kind
        for each in found.by[kind]:
            same: dict[str, Any] = {kind: each.value}
            wanted = replace(Filter(), **same)
            assert matching(wanted).count() == each.count, (kind, each)
            assert patterns(wanted, timezone.now()).count == each.count, (kind, each)
    assert patterns(Filter(retriable=True), timezone.now()).count == found.retriable == 2


def test_an_engine_of_a_node_is_both(db: None) -> None:
    dead(engine_id="gpu-2.demo.0.b")
    dead(engine_id="gpu-2.other.0.b")
    assert patterns(Filter(node="gpu-2", engine="gpu-2.demo.0"), timezone.now()).count == 1
    assert matching(Filter(node="gpu-2", engine="gpu-2.demo.0")).count() == 1
    assert matching(Filter(node="gpu", engine="gpu-2.demo.0")).count() == 0


def test_names_are_no_regular_expressions() -> None:
    dead(engine_id="gpu-2.demo.0.b")
    for text in (".*", "gpu.2", "(", "[", "\\", "***=gpu-2", "gpu-2|x", "é\n"):
        assert patterns(Filter(node=text), timezone.now()).count == 0, text
        assert matching(Filter(engine=text)).count() == 0, text


def test_closed_ones_and_those_of_yesterday_do_not_count() -> None:
    now = timezone.now()
    dead(replayed_at=now)
    dead(discarded_at=now)
    dead(created_at=now - timedelta(hours=25))
    dead(created_at=now - timedelta(hours=23))
    found = patterns(Filter(), now)
    assert found.count == 1
    assert len(found.hours) == 25
    assert sum(hour.count for hour in found.hours) == 1
    assert found.hours[-1].at <= now < found.hours[-1].at + timedelta(hours=1)
    assert patterns(Filter(created_after=now - timedelta(hours=1)), now).count == 0
    assert patterns(Filter(created_before=now - timedelta(hours=1)), now).count == 1


def test_the_thresholds_are_those_of_the_alerts(settings: Settings) -> None:
    for _ in range(2):
        dead(cause="timeout")
    dead(cause="error")
    settings.DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE = 1
    settings.DALSTON_ALERT_DEAD_LETTERS_RETRIABLE = 3
    found = patterns(Filter(), timezone.now())
    assert {each.value: each.is_many for each in found.by["cause"]} == {"timeout": True, "error": False}
    assert not found.are_many_retriable
    settings.DALSTON_ALERT_DEAD_LETTERS_RETRIABLE = 2
    assert found.are_many_retriable


def test_of_many_values_the_most_frequent_are_shown_and_all_counted() -> None:
    at = timezone.now()
    DeadLetter.objects.bulk_create(
        DeadLetter(queue=f"q{queue}", cause="error", fingerprint="f", created_at=at)
        for queue in range(20)
        for _ in range(queue + 1)
    )
    found = patterns(Filter(), at)
    assert found.count == 210
    assert [each.value for each in found.by["queue"]] == [f"q{queue}" for queue in range(19, 11, -1)]


def test_the_newest_are_counted_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "EXAMINED", 2)
    now = timezone.now()
    for minutes, cause in ((3, "error"), (2, "timeout"), (1, "timeout")):
        dead(cause=cause, created_at=now - timedelta(minutes=minutes))
    found = patterns(Filter(), now)
    assert values(found, "cause") == {"timeout": (2, 2)}
    assert not found.is_whole


@pytest.mark.parametrize("of_a_project", [False, True], ids=["all", "of a project"])
def test_counting_reads_an_index_and_no_more_than_the_newest(of_a_project: bool) -> None:
    mine = Project.objects.create(name="mine")
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE dalston_dead_letter")  # a new file, without what tests before left
        cursor.execute(
            """INSERT INTO dalston_dead_letter (id, queue, task_type, attempt, deliveries, cause, error, error_type,
                   retriable, traceback, fingerprint, created_at, engine_id, project_id)
               SELECT gen_random_uuid(), 'echo', 'echo', 1, 0, 'error', 'boom', '', true, '', 'f1',
                   now() - number * interval '1 second', 'n.demo.0.b', CASE WHEN number %% 10 = 0 THEN %s::uuid END
               FROM generate_series(1, 30000) AS number""",
            [mine.pk],
        )
        cursor.execute("ANALYZE dalston_dead_letter")
        wanted = Filter(project_id=mine.pk if of_a_project else None)
        since = timezone.now() - dead_letters.WINDOW
        cursor.execute("EXPLAIN (ANALYZE, FORMAT TEXT) " + sql_of(wanted), values_of(wanted, since))
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert ("dead_letter_project" if of_a_project else "dead_letter_newest") in plan, plan
    assert "Seq Scan on dalston_dead_letter" not in plan, plan
    assert max(float(rows) for rows in re.findall(r"actual time=\S+ rows=([\d.]+)", plan)) <= EXAMINED, plan
    found = patterns(wanted, timezone.now())
    assert (found.count, found.is_whole) == ((3000, True) if of_a_project else (EXAMINED, False))
