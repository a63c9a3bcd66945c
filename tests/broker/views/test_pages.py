"""Pages: waiting tasks in claiming order, running tasks of one stream or engine, by idle time or by deadline."""

import itertools

import pytest

from dalston_queue.broker import Broker, Keys
from dalston_queue.broker.protocol.types import Priority, Tier
from dalston_queue.broker.views.pages import LaneTier, PendingEntry, PendingOrder
from tests.broker.conftest import MakeEngine, message
from tests.support import wait_until


def test_waiting_tasks_come_in_claiming_order(broker: Broker) -> None:
    broker.append([message("low", priority=Priority.LOW), message("medium"), message("high", priority=Priority.HIGH)])
    page = broker.waiting("echo")
    assert [(entry.task_id, entry.lane_tier.tier) for entry in page] == [
        ("high", Tier.HIGH),
        ("medium", Tier.MEDIUM),
        ("low", Tier.LOW),
    ]
    assert page[0].job_id == "job-high" and page[0].attempt == 1 and page[0].enqueued_at_ms > 0


def test_claimed_tasks_do_not_wait_and_pages_continue_after_an_entry(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"t{n}") for n in range(5)])
    engine("e").claim()
    first = broker.waiting("echo", lane_tier=LaneTier(), limit=2)
    rest = broker.waiting("echo", lane_tier=LaneTier(), after=first[-1].entry_id, limit=9)
    assert [entry.task_id for entry in first + rest] == ["t1", "t2", "t3", "t4"]


def test_a_page_goes_on_behind_an_entry_with_the_streams_after_its_own(broker: Broker) -> None:
    high = [message(f"h{n}", priority=Priority.HIGH) for n in range(2)]
    gpu = [message(f"g{n}", required_capabilities=("gpu",)) for n in range(2)]
    broker.append([*high, *gpu, *(message(f"m{n}") for n in range(2)), message("low", priority=Priority.LOW)])
    whole = broker.waiting("echo")
    assert [entry.task_id for entry in whole] == ["h0", "h1", "m0", "m1", "g0", "g1", "low"]
    for number, entry in enumerate(whole):
        rest = broker.waiting("echo", lane_tier=entry.lane_tier, after=entry.entry_id, onward=True)
        assert rest == whole[number + 1 :]


def test_a_page_behind_an_entry_that_was_claimed_begins_at_the_first_that_waits(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message(f"t{n}") for n in range(4)])
    [first, *_] = broker.waiting("echo")
    engine("e", capacity=2).claim()
    rest = broker.waiting("echo", lane_tier=LaneTier(), after=first.entry_id)
    assert [entry.task_id for entry in rest] == ["t2", "t3"]


def test_running_tasks_of_one_engine_or_of_one_stream(broker: Broker, engine: MakeEngine) -> None:
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
def test_lane_and_tier_are_read_from_the_key_of_a_stream(cluster: bool) -> None:
    keys = Keys("dalston", cluster)
    for lane, tier in itertools.product(("", "a100", "a100+large"), Tier):
        assert keys.lane_and_tier(keys.stream("echo", lane, tier)) == (lane, tier)


@pytest.mark.parametrize("order", PendingOrder)
def test_pages_of_running_tasks_fit_together(broker: Broker, engine: MakeEngine, order: PendingOrder) -> None:
    broker.append([message(f"t{n}", timeout_ms=60_000 + n) for n in range(5)])
    engine("e", capacity=5).claim()
    pages = [broker.pending("echo", order=order, offset=start, limit=2) for start in (0, 2, 4)]
    assert [len(page.entries) for page in pages] == [2, 2, 1]
    assert {entry.task_id for page in pages for entry in page.entries} == {f"t{n}" for n in range(5)}
    assert {page.total for page in pages} == {5}


def test_a_page_of_running_tasks_by_idle_time_and_by_deadline(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"t{n}", timeout_ms=(9 - n) * 10_000) for n in range(6)])
    broker.append([message("endless")])
    consumer = engine("e", capacity=7)
    claimed = {c.task_id: c for c in consumer.claim()}
    start = broker.records("echo", ["t0"])["t0"].renewed_at_ms
    wait_until(lambda: broker.home.now_ms() > start, what="the clock to move")
    claimed["t0"].renew()
    page = broker.pending("echo", limit=100)
    assert page.total == 7 and page.entries[-1].task_id == "t0", "renewed last, so idle for the shortest time"
    by_deadline = broker.pending("echo", order=PendingOrder.DEADLINE, offset=2, limit=2)
    assert [e.task_id for e in by_deadline.entries] == ["t3", "t2"] and by_deadline.total == 6
    entry = by_deadline.entries[0]
    assert entry.record.owner == "e" and entry.overdue_ms < 0 and entry.record.attempt == 1
    assert broker.pending("echo", min_idle_ms=60_000).entries == []
    assert broker.pending("echo", order=PendingOrder.DEADLINE, overdue_by_ms=0).total == 0


def test_overdue_entries_are_found(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("late", timeout_ms=1), message("fine", timeout_ms=60_000)])
    engine(capacity=2).claim()

    def overdue() -> list[PendingEntry]:
        return broker.pending("echo", order=PendingOrder.DEADLINE, overdue_by_ms=5).entries

    (late,) = wait_until(overdue, what="an overdue entry")
    assert late.task_id == "late" and late.overdue_ms >= 5


def test_pages_go_past_the_thousandth_entry(broker: Broker, engine: MakeEngine) -> None:
    """Pending reads capped at 1000 made entry 1001 look orphaned."""
    broker.append([message(f"t{n}") for n in range(1100)])
    for n in range(5):
        engine(f"e{n}", capacity=256).claim()
    seen = {
        e.task_id for offset in range(0, 1200, 300) for e in broker.pending("echo", offset=offset, limit=300).entries
    }
    assert len(seen) == 1100
