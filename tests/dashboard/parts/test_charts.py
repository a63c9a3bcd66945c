"""Sparklines: an unknown value is a gap, and each chart has a title for screen readers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from dalston_queue.dashboard.parts.charts import MINUTES, History, series, sparkline, words
from dalston_queue.models import Sample


def test_a_chart_says_in_words_what_it_draws() -> None:
    svg = sparkline([0, 5, 2.5], "waiting in echo")
    assert 'role="img"' in svg
    assert "<title>waiting in echo: now 2.5, lowest 0, highest 5</title>" in svg


def test_a_gap_is_not_drawn_as_zero() -> None:
    svg = sparkline([1, 2, None, 3, 4], "x")
    assert svg.count("<polyline") == 2
    assert words([1, None]) == "not known now, lowest 1, highest 1"


def test_without_samples_it_says_so() -> None:
    assert "no samples yet" in sparkline([], "x")
    assert "no samples yet" in sparkline([None, None], "x")


def test_a_title_from_outside_is_escaped() -> None:
    assert "<script" not in sparkline([1], "<script>alert(1)</script>")


def test_the_fixed_top_keeps_a_percentage_comparable() -> None:
    assert 'points="0,12 120,12"' in sparkline([50, 50], "use", top=100)


@pytest.mark.django_db
def test_the_last_hour_is_read_minute_by_minute() -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    for ago in (1, 3, MINUTES + 5):
        at = minute - timedelta(minutes=ago)
        Sample.objects.create(kind="lane", name="echo", at=at, numbers={"waiting": ago})
    waiting = series(History("lane").get()["echo"], "waiting")
    assert (len(waiting), waiting[-3:]) == (MINUTES, [3, None, 1])
    assert waiting.count(None) == MINUTES - 2
    Sample.objects.create(kind="lane", name="echo", at=minute, numbers={"waiting": 0})
    waiting = series(History("lane").get()["echo"], "waiting")
    assert (len(waiting), waiting[-4:]) == (MINUTES, [3, None, 1, 0]), "the minute that runs, once it is sampled"
    assert History("gpu").get() == {}
    assert series(None, "waiting") == []
