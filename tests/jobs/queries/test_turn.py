"""What holds a READY task back, and its place: pure, from limits, shares and the numbers of the lanes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from dalston_queue.broker.protocol.types import Tier
from dalston_queue.broker.views.snapshot import LaneStats
from dalston_queue.jobs.queries.turn import Order, held_by, position, share_of
from dalston_queue.models import Limit, Project, Task
from tests.jobs.make import NOW

A, B = UUID(int=1), UUID(int=2)
ACME = Project(id=A, name="acme")


def order(*limits: Limit, flying: dict[Any, int] | None = None, **more: Any) -> Order:
    return Order((A, "42"), limits, {"echo": flying or {}}, projects={A: "acme", B: "big"}, **more)


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        ({"project": ACME, "concurrency_key": "*", "queue": "echo", "max_in_flight": 3},
         "key 42 of project acme has 3 of 3 in flight in the queue echo"),
        ({"project": ACME, "concurrency_key": "42", "max_in_flight": 3}, "key 42 of project acme has 3 of 3 in flight"),
        ({"project": ACME, "max_in_flight": 5}, "project acme has 5 of 5 in flight"),
        ({"queue": "echo", "max_in_flight": 8}, "the queue echo has 9 of 8 in flight"),
        ({"queue": "echo", "max_in_flight": 9}, "the queue echo has 9 of 9 in flight"),
    ],
)  # fmt: skip
def test_a_full_limit_is_named_with_its_numbers(limit: dict[str, Any], sentence: str) -> None:
    found = order(Limit(**limit), flying={(A, "42"): 3, (A, "43"): 2, (B, ""): 4})
    assert held_by(found, NOW) == f"A limit holds it back: {sentence}."


def test_a_limit_with_room_holds_nothing() -> None:
    assert held_by(order(Limit(queue="echo", max_in_flight=10), flying={(B, ""): 9}), NOW) is None
    assert held_by(order(), NOW) is None


def test_a_limit_of_zero_stops_it() -> None:
    assert held_by(order(Limit(project=ACME, max_in_flight=0)), NOW) == "A limit of 0 stops project acme."


def test_a_used_up_rate_says_when_the_next_start_is() -> None:
    limit = Limit(queue="echo", starts_per_minute=1, tokens=0.0, filled_at=NOW)
    held = held_by(order(limit), NOW + timedelta(seconds=20))
    assert held == ("A limit holds it back: the queue echo may start 1 a minute; the next start is in about 40 s.")
    assert held_by(order(limit), NOW + timedelta(seconds=61)) is None


def test_a_rate_with_enough_in_windows_says_that_those_start_first() -> None:
    limit = Limit(queue="echo", starts_per_minute=60, tokens=3.0, filled_at=NOW)
    held = held_by(order(limit, in_windows={"echo": {(A, "42"): 1, (B, ""): 2}}), NOW)
    assert held == "A limit holds it back: the queue echo may start 60 a minute; 3 that are queued start before it."
    assert held_by(order(limit, in_windows={"echo": {(B, ""): 2}, "other": {(B, ""): 5}}), NOW) is None


def test_the_project_with_most_of_the_slots_is_named_to_those_who_may_know() -> None:
    found = order(flying={(A, "42"): 1, (A, "43"): 1, (B, ""): 6})
    assert share_of(found, "echo", names_others=True) == "project big has 6 of 8 in flight, its own 2"
    assert share_of(found, "echo", names_others=False) == "other projects have 6 of 8 in flight, its own 2"
    assert share_of(order(flying={(A, "43"): 5}), "echo", names_others=True) is None


def lane(tier: Tier, *, lag: int = 0, ready: int = 0, capabilities: str = "") -> LaneStats:
    same: dict[str, Any] = {"stream": "", "shard": 0, "pending": 0, "consistent": True, "consumers": 0}
    same |= {"oldest_age_ms": None, "added": 0, "removed": 0}
    return LaneStats(queue="echo", capabilities=capabilities, tier=tier, length=lag, lag=lag, ready=ready, **same)


LANES = [
    lane(Tier.RECOVERED, lag=1),
    lane(Tier.HIGH, lag=4, ready=20),
    lane(Tier.MEDIUM, lag=4, ready=50),
    lane(Tier.MEDIUM, lag=2, ready=7, capabilities="gpu"),
    lane(Tier.LOW, lag=4, ready=100),
]


@pytest.mark.parametrize(
    ("counted", "number"),
    [
        ({"older": 0, "groups": 5}, 0),
        ({"older": 3, "groups": 5}, 15),
        ({"older": 1000, "groups": 5}, 49),
        ({"older": None}, 49),
    ],
)
def test_its_place_is_behind_the_windows_the_higher_tiers_and_its_share(counted: dict[str, Any], number: int) -> None:
    task = Task(lane="echo", tier="medium")
    assert position(task, order(**counted), LANES) == (1 + 4 + 4 + 2) + 20 + number + 1
