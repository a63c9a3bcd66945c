"""Ageing: by total wait, by script, only while undelivered."""

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.ageing.policy import is_due
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import EventKind, Priority, Tier
from tests.broker.conftest import MakeEngine, events_of, message

MINUTE = 60_000


def tiers(broker: Broker) -> dict[str, Tier]:
    home = broker.home
    return {
        task: tier
        for lane in broker.lanes("echo")
        for tier in Tier
        for task in entries(broker, home.keys.stream("echo", lane, tier))
    }


def entries(broker: Broker, stream: str) -> list[str]:
    rows = broker.home.command("XRANGE", stream, "-", "+")
    return [dict(zip(fields[::2], fields[1::2], strict=True))[b"t"].decode() for _, fields in rows]


def test_the_policy() -> None:
    assert not is_due(Tier.LOW, 0, 10 * MINUTE - 1) and is_due(Tier.LOW, 0, 10 * MINUTE)
    assert not is_due(Tier.MEDIUM, 0, 20 * MINUTE - 1) and is_due(Tier.MEDIUM, 0, 20 * MINUTE)
    assert not any(is_due(tier, 0, 10**12) for tier in (Tier.HIGH, Tier.RECOVERED, Tier.SUSPECT))


def test_low_counts_as_medium_after_10_minutes_and_as_high_after_20(broker: Broker, reader: EventReader) -> None:
    now = broker.home.now_ms()
    broker.append(
        [message("a", priority=Priority.LOW), message("b", priority=Priority.LOW, required_capabilities=("x",))]
    )
    assert broker.promote("echo", now_ms=now + 9 * MINUTE) == []
    moved = broker.promote("echo", now_ms=now + 11 * MINUTE)
    assert {(e.task_id, e.tier, e.seq) for e in moved} == {("a", Tier.MEDIUM, 1), ("b", Tier.MEDIUM, 1)}
    assert broker.promote("echo", now_ms=now + 11 * MINUTE) == [], "repeatable"
    assert len(broker.promote("echo", now_ms=now + 21 * MINUTE)) == 2
    assert tiers(broker) == {"a": Tier.HIGH, "b": Tier.HIGH}
    told = events_of(reader)
    assert [e.kind for e in told] == [EventKind.TASK_PROMOTED] * 4 and told[-1].tier is Tier.HIGH
    home = broker.home
    assert home.command("EXISTS", home.keys.ageing("echo")) == 0


def test_one_that_is_older_than_its_position_is_found(broker: Broker) -> None:
    """A promoted or rebuilt entry stands behind younger ones; the front of the lane doesn't tell its age."""
    now = broker.home.now_ms()
    broker.append([message(f"young{n}") for n in range(5)])
    broker.append([message("old", enqueued_at_ms=now - 25 * MINUTE)])
    assert [e.task_id for e in broker.promote("echo", now_ms=now)] == ["old"]


def test_a_claimed_or_cancelled_task_is_not_promoted(broker: Broker, engine: MakeEngine) -> None:
    now = broker.home.now_ms()
    old = now - 60 * MINUTE
    broker.append([message(name, priority=Priority.LOW, enqueued_at_ms=old) for name in ("runs", "removed", "waits")])
    consumer = engine()
    consumer.claim()
    broker.remove("echo", "removed")
    assert [e.task_id for e in broker.promote("echo", now_ms=now)] == ["waits"]
    consumer.exchange([(consumer.held[0], Completed())])
    assert consumer.held[0].task_id == "waits"
    assert broker.home.command("EXISTS", broker.home.keys.ageing("echo")) == 0


def test_enqueued_at_is_kept_and_batches_are_bounded(broker: Broker, engine: MakeEngine) -> None:
    since = broker.home.now_ms() - 15 * MINUTE
    broker.append([message(f"t{n}", priority=Priority.LOW, enqueued_at_ms=since) for n in range(250)])
    sizes = []
    while batch := broker.promote("echo", batch=100):
        sizes.append(len(batch))
    assert sizes == [100, 100, 50]
    assert {c.message.enqueued_at_ms for c in engine(capacity=10).claim()} == {since}


def test_under_endless_high_load_every_task_starts_within_30_minutes(broker: Broker, engine: MakeEngine) -> None:
    """Simulated time: one engine takes 10 tasks a minute, and as many high ones arrive. Others would never start."""
    start = broker.home.now_ms()
    consumer = engine(capacity=10)
    waited: dict[str, float] = {}
    arrived: dict[str, int] = {}
    for minute in range(45):
        now = start + minute * MINUTE
        batch = [message(f"h{minute}-{n}", priority=Priority.HIGH, enqueued_at_ms=now) for n in range(10)]
        if minute < 5:
            batch += [message(f"low{minute}", priority=Priority.LOW, enqueued_at_ms=now)]
            batch += [message(f"med{minute}", enqueued_at_ms=now)]
        arrived |= {m.task_id: minute for m in batch}
        broker.append(batch)
        while broker.promote("echo", now_ms=now):
            pass
        for claimed in consumer.exchange([(c, Completed()) for c in consumer.held]).claimed:
            waited[claimed.task_id] = minute - arrived[claimed.task_id]
    assert {f"low{n}" for n in range(5)} | {f"med{n}" for n in range(5)} <= waited.keys()
    assert max(waited.values()) <= 30
