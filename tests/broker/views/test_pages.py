"""Pages: waiting tasks in claiming order, and what is held, of one lane or one engine, page by page."""

import itertools

import pytest

from dalston_queue.broker import Broker, Keys
from dalston_queue.broker.protocol.types import Priority, Tier
from dalston_queue.broker.views.pages import LaneTier
from tests.broker.conftest import MakeEngine, message


def test_waiting_tasks_come_in_claiming_order(broker: Broker) -> None:
    broker.append([message("low", priority=Priority.LOW), message("medium"), message("high", priority=Priority.HIGH)])
    page = broker.waiting("echo")
    assert [(entry.task_id, entry.lane_tier.tier) for entry in page] == [
        ("high", Tier.HIGH),
        ("medium", Tier.MEDIUM),
        ("low", Tier.LOW),
    ]
    assert page[0].job_id == "job-high" and page[0].attempt == 1 and page[0].enqueued_at_ms > 0


def test_what_is_claimed_does_not_wait_and_pages_go_on_after_an_entry(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"t{n}") for n in range(5)])
    engine("e").claim()
    place = LaneTier()
    first = broker.waiting("echo", lane_tier=place, limit=2)
    rest = broker.waiting("echo", lane_tier=place, after=first[-1].entry_id, limit=9)
    assert [entry.task_id for entry in first + rest] == ["t1", "t2", "t3", "t4"]


def test_what_is_held_by_one_engine_or_of_one_lane(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b", priority=Priority.HIGH), message("c")])
    engine("one", capacity=1).claim()
    engine("two", capacity=2).claim()
    assert [entry.task_id for entry in broker.held("echo", engine_id="one")] == ["b"]
    assert [entry.task_id for entry in broker.held("echo", engine_id="two")] == ["a", "c"]
    lane = broker.held("echo", lane_tier=LaneTier(), limit=1)
    assert [entry.task_id for entry in lane] == ["a"]
    rest = broker.held("echo", lane_tier=LaneTier(), after=lane[0].record.entry_id)
    assert [(entry.task_id, entry.record.owner) for entry in rest] == [("c", "two")]


def test_foreign_bytes_and_ghosts_do_not_stop_a_page(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    (claimed,) = engine("e").claim()
    home = broker.home
    home.command("XADD", claimed.stream, "*", "t", b"\xff" * 300, "x", "y")
    home.command("XDEL", claimed.stream, claimed.entry_id)
    assert broker.held("echo", lane_tier=LaneTier()) == []
    assert [entry.task_id for entry in broker.waiting("echo")] == ["b", ""]
    assert not broker.waiting("nosuch") and not broker.held("nosuch")


@pytest.mark.parametrize("cluster", [False, True])
def test_a_lanes_place_is_read_back_from_its_streams_key(cluster: bool) -> None:
    keys = Keys("dalston", cluster)
    for place in itertools.product(("", "a100", "a100+large"), Tier):
        assert keys.lane_and_tier(keys.stream("echo", *place)) == place
