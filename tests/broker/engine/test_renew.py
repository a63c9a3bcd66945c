"""Beats: renew what an engine holds, and report what changed."""

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.protocol.messages import Cancelled, Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Cause
from tests.broker.conftest import MakeEngine, message
from tests.support import wait_until


def test_a_renewal_comes_without_counting_a_delivery(broker: Broker, engine: MakeEngine) -> None:
    """XCLAIM as renewal counts a delivery and can steal; renewal is done as the owner, with JUSTID."""
    broker.append([message("a")])
    consumer = engine("e")
    (claimed,) = consumer.claim()
    before = broker.records("echo", ["a"])["a"].renewed_at_ms
    home = broker.home

    def renewed() -> bool:
        consumer.renew_all()
        return broker.records("echo", ["a"])["a"].renewed_at_ms > before

    wait_until(renewed, what="a later renewal")
    ((_, owner, idle, deliveries),) = home.command("XPENDING", claimed.stream, "engines", "-", "+", 1)
    assert (owner, deliveries) == (b"e", 1) and idle < 1000


def test_progress_is_kept_in_the_record(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine(capacity=2)
    a, _ = consumer.claim()
    assert a.progress({"percent": 40}) is True
    consumer.renew_all({"b": 0.5})
    records = broker.records("echo", ["a", "b"])
    assert (records["a"].progress, records["b"].progress) == ('{"percent":40}', "0.5")


def test_a_cancel_is_seen_by_renew_all_progress_and_renew(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine(capacity=2)
    a, b = consumer.claim()
    assert broker.request_cancel("echo", "a") == "flagged"
    assert consumer.renew_all().cancelled == [a] and a.cancel_requested and not b.cancel_requested
    assert a.renew() is False and a.progress(1) is False and b.renew() is True
    assert a.settle(Cancelled()) == "ok"


def test_a_task_that_was_taken_from_its_engine_is_reported_as_lost(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine(capacity=2)
    a, b = consumer.claim()
    error = ErrorInfo(message="deadline", cause=Cause.TIMEOUT)
    assert broker.expire("echo", "a", 1, error) == "expired"
    renewed = consumer.renew_all()
    assert renewed.lost == [a] and consumer.held == [b] and a.lost
    assert a.settle(Completed()) == "lost"


def test_what_an_engine_should_hold_but_does_not_is_missing(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", timeout_ms=5000), message("b")])
    consumer = engine("e", capacity=2)
    claimed = consumer.claim()
    forgetful = Consumer(broker, "e", ["echo"], capacity=2)
    forgetful.open()  # the same engine, after it lost its memory and its session
    again = forgetful.renew_all().missing
    assert {c.task_id for c in again} == {"a", "b"}
    assert [c.deadline_ms for c in again if c.task_id == "a"] == [c.deadline_ms for c in claimed if c.task_id == "a"]
    assert forgetful.renew_all().missing == []
    assert again[0].settle(Completed()) == "ok"
    assert broker.records("echo", ["a"])["a"].deliveries == 0


def test_a_ghost_does_not_stay_with_a_live_owner(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine()
    (claimed,) = consumer.claim()
    broker.home.command("XDEL", claimed.stream, claimed.entry_id)
    consumer.open()
    assert consumer.renew_all().missing == []
    stats = broker.snapshot().queues[0]
    assert stats.lanes[2].consistent and stats.counters["ghosts"] == 1
