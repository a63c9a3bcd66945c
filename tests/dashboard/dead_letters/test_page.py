"""The page of dead letters: groups of similar errors, and lists."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from dalston_queue.dashboard.dead_letters import query as dead_letters_query
from dalston_queue.dashboard.dead_letters.query import COUNT_LIMIT, SHOWN, dead_letters_of, groups_of
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.models import DeadLetter, OperatorAction, ReplayBatch
from tests.dashboard.dead_letters.make import PAGE, make_dead_letter, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def test_similar_dead_letters_are_one_group_with_count_first_and_last(viewer: Client) -> None:
    now = timezone.now()
    for age in (3, 2, 1):
        make_dead_letter(created_at=now - timedelta(hours=age))
    make_dead_letter("out of <memory>", "f2", cause="gpu_oom")
    first, second = groups_of(Filter())
    assert (first.fingerprint, first.count) == ("f2", 1)
    assert (second.count, second.first_at, second.last_at) == (
        3,
        now - timedelta(hours=3),
        now - timedelta(hours=1),
    )
    text = text_of(viewer)
    assert "out of &lt;memory&gt;" in text
    assert 'href="?fingerprint=f1"' in text


def test_a_group_has_a_button_that_replays_it_within_the_filter(viewer: Client, operator: Client) -> None:
    for _ in range(2):
        make_dead_letter()
    make_dead_letter("too slow", "f2")
    button = 'id="group-f1-replay" class="small-button" href="/dead-letters/replay/?queue=echo&amp;fingerprint=f1"'
    assert button in text_of(operator, f"{PAGE}?queue=echo")
    assert "group-f1-replay" not in text_of(viewer, f"{PAGE}?queue=echo")
    assert "Dry run: 2 dead letters match" in text_of(operator, "/dead-letters/replay/?fingerprint=f1&queue=echo")


def test_a_group_that_began_within_the_hour_is_marked_as_new(viewer: Client) -> None:
    now = timezone.now()
    for fingerprint, minutes in (("old", 61), ("old", 1), ("fresh", 59)):
        make_dead_letter(fingerprint=fingerprint, created_at=now - timedelta(minutes=minutes))
    text = text_of(viewer)
    rows = {name: text.partition(f'id="group-{name}"')[2].partition("</tr>")[0] for name in ("old", "fresh")}
    assert {name: ">new</span>" in row for name, row in rows.items()} == {"old": False, "fresh": True}


def test_closed_dead_letters_are_not_shown() -> None:
    make_dead_letter(replayed_at=timezone.now())
    make_dead_letter(discarded_at=timezone.now())
    assert groups_of(Filter()) == ()
    assert dead_letters_of(Filter()) == ((), None)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?queue=echo", {"f1"}),
        ("?cause=timeout", {"f2"}),
        ("?task_type=sleep", {"f2"}),
        ("?error=AUDIO", {"f1"}),
        ("?error=100%25", set()),
        ("?since=2020-01-01", {"f1", "f2"}),
        ("?until=2020-01-01", set()),
        ("?queue=echo&cause=timeout", set()),
    ],
)
def test_the_query_string_filters(viewer: Client, query: str, found: set[str]) -> None:
    make_dead_letter()
    make_dead_letter("too slow", "f2", queue="sleep", cause="timeout")
    text = text_of(viewer, PAGE + query)
    assert {name for name in ("f1", "f2") if f'id="group-{name}"' in text} == found


def test_a_count_stops_and_says_so(viewer: Client) -> None:
    rows = [
        DeadLetter(queue="echo", cause="rejected", fingerprint="raw", created_at=timezone.now())
        for _ in range(COUNT_LIMIT + 5)
    ]
    DeadLetter.objects.bulk_create(rows)
    [group] = groups_of(Filter())
    assert group.is_more
    assert f"more than {COUNT_LIMIT}" in text_of(viewer)


def test_no_query_reads_the_whole_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE dalston_dead_letter")  # a new file: plans must not depend on what tests before left
        cursor.execute(
            """INSERT INTO dalston_dead_letter (id, queue, task_type, attempt, deliveries, cause, error, error_type,
                   traceback, fingerprint, created_at, replayed_at)
               SELECT gen_random_uuid(), 'echo', '', 1, 0, 'error', 'boom', '', '',
                   CASE WHEN n < 20 THEN 'rare' ELSE 'f' || n % 7 END,
                   now() - n * interval '1 s',
                   CASE WHEN n % 2 = 0 THEN now() END
               FROM generate_series(1, 30000) AS n"""
        )
        cursor.execute("ANALYZE dalston_dead_letter")
    names = "queue cause fingerprint task_type error retriable engines project since until after_at after_id"
    values = dict.fromkeys(names.split())
    for query, index, more in (
        (dead_letters_query._WALK, "dead_letter_group", {}),
        (dead_letters_query._LIST, "dead_letter_newest", {}),
        (dead_letters_query._LIST, "dead_letter_group", {"fingerprint": "rare"}),
        (dead_letters_query._SEARCH_GROUPS, "dead_letter_newest", {"error": "boom"}),
    ):
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + query, {**values, **more})
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert index in plan, plan
        assert "Seq Scan on dalston_dead_letter" not in plan, plan


def test_a_group_opens_into_its_dead_letters(viewer: Client) -> None:
    mine, other = make_dead_letter(), make_dead_letter("else", "f2")
    text = text_of(viewer, f"{PAGE}?fingerprint=f1")
    assert f'href="/dead-letters/{mine.pk}/"' in text
    assert str(other.pk) not in text
    assert str(other.pk) in text_of(viewer, f"{PAGE}?each=1")


def test_pages_follow_each_other_without_a_gap(viewer: Client) -> None:
    now = timezone.now()
    rows = [
        DeadLetter(queue="echo", cause="rejected", fingerprint="raw", created_at=now - timedelta(seconds=n // 2))
        for n in range(SHOWN * 2 + 3)
    ]
    DeadLetter.objects.bulk_create(rows)
    seen: list[UUID] = []
    cursor = None
    while True:
        dead_letters, cursor = dead_letters_of(Filter(fingerprint="raw"), cursor)
        seen += [one.id for one in dead_letters]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == len(rows)
    assert 'rel="next"' in text_of(viewer, f"{PAGE}?each=1")


@pytest.mark.parametrize(
    "query",
    [
        "?since=x",
        "?each=1&after=x",
        "?each=1&after=0001-01-01T00:00%2B14:00,0193e2b0-0000-7000-8000-000000000000",
        "?queue=%00",
    ],
)
def test_an_invalid_query_string_says_why(viewer: Client, query: str) -> None:
    answer = viewer.get(PAGE + query)
    assert answer.status_code == 400
    assert b'role="alert"' in answer.content


def test_a_viewer_sees_no_button_and_is_refused(viewer: Client) -> None:
    dead_letter = make_dead_letter()
    for path in (PAGE, f"{PAGE}?each=1", f"{PAGE}{dead_letter.pk}/"):
        text = text_of(viewer, path)
        assert "Replay" not in text.split("<main", 1)[1]
        assert "Discard" not in text
        assert "checkbox" not in text
    for path in ("replay-selected/", "discard/", f"batches/{dead_letter.pk}/undo/", "replay/"):
        assert viewer.post(PAGE + path, {"id": str(dead_letter.pk), "reason": "x"}).status_code == 403
    assert viewer.get(f"{PAGE}replay/").status_code == 403
    assert not ReplayBatch.objects.exists()
    assert not OperatorAction.objects.exists()


def test_the_page_needs_a_login() -> None:
    assert Client().get(PAGE).status_code == 302
