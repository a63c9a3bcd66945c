"""Settling: only by the owner, at this attempt, in a live session."""

import msgspec

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.operations.lanes import retire_empty
from dalston_queue.broker.protocol.messages import Cancelled, Completed, ErrorInfo, Failed
from dalston_queue.broker.protocol.types import Cause, EventKind, Priority, Settled
from tests.broker.conftest import MakeEngine, events_of, message


def test_each_outcome_becomes_its_event(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a"), message("b"), message("c")])
    a, b, c = engine(capacity=3).claim()
    error = ErrorInfo(message="no", type="ValueError", cause=Cause.RATE_LIMITED, retry_after_s=2.5, evidence={"x": 1})
    assert a.settle(Completed({"text": "hello"})) is Settled.ACCEPTED
    assert b.settle(Failed(error)) is Settled.ACCEPTED
    assert c.settle(Cancelled()) is Settled.ACCEPTED
    ended = {e.task_id: e for e in events_of(reader) if e.kind.ends_attempt}
    assert ended["a"].kind is EventKind.TASK_COMPLETED and ended["a"].result == {"text": "hello"}
    assert ended["b"].kind is EventKind.TASK_FAILED and ended["b"].error == error
    assert ended["c"].kind is EventKind.TASK_CANCELLED


def test_settling_twice_counts_once(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a")])
    consumer = engine()
    (claimed,) = consumer.claim()
    assert claimed.settle(Completed(1)) is Settled.ACCEPTED
    assert claimed.settle(Completed(2)) is Settled.LOST
    assert [e.result for e in events_of(reader) if e.kind is EventKind.TASK_COMPLETED] == [1]
    assert broker.snapshot().queues[0].counters["refused"] == 1


def test_one_call_with_the_same_task_twice_settles_it_once(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message("a")])
    consumer = engine()
    (claimed,) = consumer.claim()
    answer = consumer.exchange([(claimed, Completed(1)), (claimed, Completed(2))])
    assert answer.settled == [Settled.ACCEPTED, Settled.LOST] and not claimed.lost
    assert [e.result for e in events_of(reader) if e.kind is EventKind.TASK_COMPLETED] == [1]


def test_an_entry_claimed_away_by_another_program_is_not_settled(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    """XACK takes no consumer: without the owner check it would remove the new owner's entry."""
    broker.append([message("a")])
    (claimed,) = engine("first").claim()
    home = broker.home
    home.command("XCLAIM", claimed.stream, "engines", "other", 0, claimed.entry_id)
    assert claimed.settle(Completed()) is Settled.LOST
    assert broker.snapshot().queues[0].lanes[2].pending == 1
    home.command("XCLAIM", claimed.stream, "engines", "first", 0, claimed.entry_id)


def test_a_batch_in_any_order_settles_what_is_owned_and_nothing_else(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    low = [message(f"l{n}", priority=Priority.LOW) for n in range(4)]
    broker.append([message(f"m{n}", timeout_ms=60_000) for n in range(6)])
    broker.append(low)
    consumer = engine("first", capacity=10)
    by_id = {claimed.task_id: claimed for claimed in consumer.claim()}
    home = broker.home
    for taken in ("m2", "l0"):
        home.command("XCLAIM", by_id[taken].stream, "engines", "other", 0, by_id[taken].entry_id)
    order = ["m5", "l3", "m0", "m2", "l0", "m4", "l1", "m1", "m0"]  # m3 and l2 go on, m0 is settled twice
    answer = consumer.exchange([(by_id[name], Completed(name)) for name in order], free=0)
    lost = {name for name, code in zip(order, answer.settled, strict=True) if code is Settled.LOST}
    assert lost - {"m0"} == {"m2", "l0"}
    ended = [e.result for e in events_of(reader) if e.kind is EventKind.TASK_COMPLETED]
    assert sorted(ended) == ["l1", "l3", "m0", "m1", "m4", "m5"]
    assert {claimed.task_id for claimed in consumer.held} == {"m3", "l2"}
    pending = {lane.stream: lane.pending for lane in broker.snapshot().queues[0].lanes if lane.pending}
    assert sorted(pending.values()) == [2, 2]  # of each stream one that goes on, and one of the other program
    for taken in ("m2", "l0"):
        home.command("XCLAIM", by_id[taken].stream, "engines", "first", 0, by_id[taken].entry_id)


def test_a_result_with_line_breaks_does_not_run_into_the_next_task(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    """Results that end together share an entry, a line each."""
    broker.append([message(name) for name in ("a", "b", "c")])
    consumer = engine(capacity=3)
    results = [1, msgspec.Raw(b'{"pretty": [\n{"result": "of another"}\n]}'), 3]
    consumer.exchange([(c, Completed(result)) for c, result in zip(consumer.claim(), results, strict=True)])
    results_by_task = {e.task_id: e.result for e in events_of(reader) if e.kind is EventKind.TASK_COMPLETED}
    assert results_by_task == {"a": 1, "b": {"pretty": [{"result": "of another"}]}, "c": 3}


def test_names_and_results_with_a_percent_sign_are_settled(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a%d"), message("b", required_capabilities=("gpu",))])
    for claimed in engine("%b%s", capabilities=("gpu",), capacity=2).claim():
        assert claimed.settle(Completed("100 %")) is Settled.ACCEPTED


def test_an_owned_task_is_settled_however_much_else_is_pending(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("first")])
    consumer = engine("busy", capacity=2)
    home, stream = broker.home, broker.home.keys.stream("echo")
    consumer.exchange([(consumer.claim()[0], Completed())])
    for _ in range(600):
        home.command("XADD", stream, "*", "foreign", "entry")
    home.client.xreadgroup("engines", "busy", {stream: ">"}, count=600)
    broker.append([message("a"), message("b")])
    claimed = consumer.claim()
    assert consumer.exchange([(c, Completed()) for c in claimed], free=0).settled == ["ok", "ok"]


def test_nothing_remains_of_a_settled_and_acknowledged_task(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    home = broker.home
    broker.append([message(f"t{n}", timeout_ms=1000, required_capabilities=("gpu",)) for n in range(20)])
    consumer = engine(capabilities=["gpu"], capacity=7)
    while claimed := consumer.claim():
        consumer.exchange([(c, Completed()) for c in claimed], free=0)
    events_of(reader)
    consumer.close()
    reader.close()
    assert retire_empty(home, "echo") == ["gpu"]
    keys = home.keys
    left = {key.decode() for key in home.client.scan_iter(f"{keys.prefix}:*")}
    assert left == {
        keys.lanes("echo"),
        keys.stages(),
        keys.counters("echo"),
        keys.events("echo"),
        keys.events("_jobs"),
    }
    assert home.command("XLEN", keys.events("echo")) == 0
