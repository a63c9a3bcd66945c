"""The deliveries of a task, folded from its transitions; and the progress that engines report."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from dalston_queue.jobs.queries.progress import Progress, parse_progress
from dalston_queue.jobs.queries.timeline import DeliveryOutcome, timeline_of
from tests.jobs.make import NOW


@dataclass
class Moved:
    transition: str
    attempt: int = 1
    engine_id: str = ""
    cause: str = ""
    message: str = ""
    at: datetime = NOW


def after(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def brief(*moves: Moved) -> list[tuple[int, str, str | None]]:
    return [(each.attempt, each.engine_id, each.outcome) for each in timeline_of(moves)]


def test_a_task_that_only_waited_has_no_deliveries() -> None:
    waited = [Moved("make_ready"), Moved("enqueue"), Moved("recover"), Moved("rebuild", 2), Moved("cancel", 2)]
    assert timeline_of(waited) == []


def test_each_delivery_has_its_engine_its_times_and_its_outcome() -> None:
    found = timeline_of([
        Moved("make_ready"),
        Moved("enqueue"),
        Moved("start", 1, "a", at=after(1)),
        Moved("recover", 1, "a", "engine_lost", "killed", at=after(2)),
        Moved("start", 1, "b", at=after(3)),
        Moved("retry", 2, "b", "error", "no luck", at=after(4)),
        Moved("due", 2),
        Moved("start", 2, "c", at=after(5)),
    ])  # fmt: skip
    assert [(it.attempt, it.engine_id, it.outcome, it.cause, it.message) for it in found] == [
        (1, "a", DeliveryOutcome.RECOVERED, "engine_lost", "killed"),
        (1, "b", DeliveryOutcome.RETRIED, "error", "no luck"),
        (2, "c", None, "", ""),
    ]
    assert [(it.started_at, it.finished_at) for it in found] == [
        (after(1), after(2)), (after(3), after(4)), (after(5), None),
    ]  # fmt: skip


def test_an_end_that_overtook_its_start_is_a_delivery_without_a_start() -> None:
    assert brief(Moved("complete", 1, "a")) == [(1, "a", "completed")]
    assert brief(Moved("retry", 3, "a")) == [(2, "a", "retried")]
    assert timeline_of([Moved("complete", 1, "a")])[0].started_at is None


def test_a_start_before_the_event_of_the_last_engines_death_ends_that_delivery() -> None:
    assert brief(Moved("start", 1, "a"), Moved("start", 1, "b"), Moved("dead_letter", 1, "b")) == [
        (1, "a", "recovered"),
        (1, "b", "dead_letter"),
    ]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", Progress()),
        ("null", Progress()),
        ('{"fraction": 0.5, "message": "half"}', Progress(0.5, "half")),
        ('{"fraction": 7}', Progress(1.0)),
        ('{"fraction": true}', Progress(None, '{"fraction": true}')),
        ("[1, 2]", Progress(None, "[1, 2]")),
        ("not json", Progress(None, "not json")),
    ],
)
def test_what_engines_report_is_understood_or_shown_as_it_is(text: str, means: Progress) -> None:
    assert parse_progress(text) == means
