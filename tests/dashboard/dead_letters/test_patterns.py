"""Patterns on the page of dead letters: counted, linked to their filter and their replay, marked past a threshold."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.dashboard.dead_letters.read import MAX_FILTERS, RecentPatterns, recent_patterns
from dalston_queue.jobs.operator.replay import Filter
from dalston_queue.models import DeadLetter, Project
from tests.dashboard.dead_letters.make import PAGE, make_dead_letter, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.keeps_keys, pytest.mark.usefixtures("broker")]


def panel(client: Client, path: str = PAGE) -> str:
    """The panel, with the entities of its links resolved."""
    found = re.search(r'<div id="patterns".*?(?=</section>)', text_of(client, path), re.DOTALL)
    assert found
    return html.unescape(found[0])


def test_without_dead_letters_it_says_so(viewer: Client) -> None:
    assert "No open dead letter of the last 24 h." in panel(viewer)
    make_dead_letter(cause="error")
    assert "No open dead letter of the last 24 h matches." in panel(viewer, f"{PAGE}?cause=timeout")


def test_each_pattern_links_to_its_dead_letters_and_an_operator_gets_its_replay(
    viewer: Client, operator: Client
) -> None:
    project = Project.objects.create(name="calls")
    for _ in range(2):
        make_dead_letter(cause="timeout", engine_id="gpu-1.demo.0.b", project=project)
    make_dead_letter("bad file", "f2", cause="rejected", retriable=False)
    text = panel(operator)
    assert "<strong>3</strong> open dead letters" in text
    assert "2 may pass" in text
    for query in ("cause=timeout", "queue=echo", "node=gpu-1", "engine=gpu-1.demo.0", "project=calls", "retriable=yes"):
        assert f'href="?{query}"' in text, query
        assert f'href="/dead-letters/replay/?{query}"' in text, query
        count = 3 if query == "queue=echo" else 2
        dry_run = operator.get(f"/dead-letters/replay/?{query}").content.decode()
        assert f"Dry run: {count} dead letters match" in dry_run, query
        assert f"<strong>{count}</strong> open dead letters" in panel(viewer, f"{PAGE}?{query}")
    assert "/dead-letters/replay/" not in panel(viewer)


def test_an_hour_links_to_its_dead_letters(viewer: Client) -> None:
    at = timezone.now() - timedelta(hours=5)
    make_dead_letter("in this hour", created_at=at)
    make_dead_letter("in another", "f2", created_at=at - timedelta(hours=2))
    [link] = re.findall(rf'<a href="(\?since={at:%Y-%m-%dT%H}[^"]*)"', panel(viewer))
    text = text_of(viewer, PAGE + link)
    assert "in this hour" in text
    assert "in another" not in text


def test_a_threshold_that_is_exceeded_is_named_with_its_runbook(viewer: Client, settings: Settings) -> None:
    settings.DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE = 1
    settings.DALSTON_ALERT_DEAD_LETTERS_RETRIABLE = 5
    for _ in range(2):
        make_dead_letter(cause="timeout")
    text = panel(viewer)
    assert "2 have the cause timeout: more than 1." in text
    assert 'href="/alerts/dead-letters-of-one-cause/"' in text
    assert "dead-letters-retriable" not in text
    settings.DALSTON_ALERT_DEAD_LETTERS_RETRIABLE = 1
    assert "2 may pass if they are replayed: more than 1." in panel(viewer)


def test_a_list_shows_no_patterns(viewer: Client) -> None:
    make_dead_letter()
    assert 'id="patterns"' not in text_of(viewer, f"{PAGE}?each=1")
    assert 'id="patterns"' not in text_of(viewer, f"{PAGE}?fingerprint=f1")


def test_names_of_clients_are_text(viewer: Client) -> None:
    evil = "<script>alert(1)</script>"
    make_dead_letter(cause=evil[:20], engine_id=f"{evil}.demo.0.b")
    text = text_of(viewer)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize(
    "query",
    ["retriable=maybe", "engine=" + "x" * 201, "retriable=%F0%9F%92%A9", "since=0000"],
)
def test_a_bad_filter_is_refused_with_its_name(viewer: Client, query: str) -> None:
    answer = viewer.get(f"{PAGE}?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.content.decode()


@pytest.mark.parametrize("query", ["node=(((", "node=[", "engine=\\", "node=***=x", "project=%25", "engine=a%0Ab"])
def test_an_odd_filter_finds_nothing(viewer: Client, operator: Client, query: str) -> None:
    make_dead_letter(engine_id="gpu-1.demo.0.b")
    assert "matches." in panel(viewer, f"{PAGE}?{query}")
    assert text_of(viewer, f"{PAGE}?each=1&{query}")
    assert "Nothing matches" in text_of(operator, f"/dead-letters/replay/?{query}")


def test_viewers_share_a_count_and_only_so_many_filters_are_kept() -> None:
    shared = RecentPatterns()
    first = shared.get(Filter())
    make_dead_letter()
    assert shared.get(Filter()) is first
    for number in range(MAX_FILTERS):
        shared.get(Filter(queue=f"q{number}"))
    assert shared.get(Filter()).count == 1, "it was forgotten, and is counted anew"


def test_a_dead_letter_names_the_engine_that_ran_it(viewer: Client) -> None:
    dead_letter = make_dead_letter(engine_id="gpu-1.demo.0.b")
    assert "gpu-1.demo.0.b" in text_of(viewer, f"{PAGE}{dead_letter.pk}/")
    assert DeadLetter.objects.get().engine_id == "gpu-1.demo.0.b"
    assert recent_patterns.fresh_s < 0, "as in all tests of pages"
