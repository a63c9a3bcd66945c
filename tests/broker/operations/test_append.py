"""Append: idempotent by task and attempt, and by the entry's existence."""

from typing import Any

import pytest

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.errors import Invalid, TooManyLanes
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Appended, Priority, RecordState
from tests.broker.conftest import MakeEngine, events_of, message


def test_the_same_attempt_is_appended_once(broker: Broker) -> None:
    assert broker.append([message("a"), message("b"), message("a")]) == ["added", "added", "duplicate"]
    assert broker.append([message("a")]) == [Appended.DUPLICATE]
    assert broker.snapshot().queues[0].waiting == 2


def test_a_running_attempt_is_not_appended_again(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    (claimed,) = engine().claim()
    assert broker.append([message("a")]) == [Appended.DUPLICATE]
    assert claimed.settle(Completed()) == "ok"


def test_a_settled_attempt_is_not_run_again_before_its_event_is_committed(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    """Reproduced: a late append of the same attempt added a second entry, and both runs counted."""
    broker.append([message("a")])
    consumer = engine()
    consumer.claim()[0].settle(Completed())
    assert broker.append([message("a")]) == [Appended.SETTLED]
    assert consumer.claim() == []
    events_of(reader)
    assert broker.records("echo", ["a"]) == {}


def test_a_later_attempt_replaces_the_tombstone(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a")])
    engine().claim()[0].settle(Completed())
    assert broker.append([message("a", attempt=2)]) == [Appended.ADDED]
    events_of(reader)
    assert broker.records("echo", ["a"])["a"].attempt == 2, "acknowledging attempt 1 must not clear attempt 2"


def test_a_later_attempt_replaces_a_live_older_one(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("waits", priority=Priority.LOW), message("runs")])
    consumer = engine(capacity=2)
    (running,) = consumer.claim(1)
    assert running.task_id == "runs"
    assert broker.append([message("waits", attempt=2), message("runs", attempt=2)]) == ["added", "added"]
    assert running.settle(Completed()) == "lost"
    assert [c.attempt for c in consumer.claim()] == [2, 2]
    assert broker.snapshot().queues[0].waiting == 0


@pytest.mark.parametrize("how", ["released", "requeued"])
def test_events_of_an_attempt_that_is_appended_again_have_higher_numbers(
    broker: Broker, engine: MakeEngine, reader: EventReader, how: str
) -> None:
    """A waiting entry is withdrawn and appended again later: an event with an old number would not be applied."""
    broker.append([message("a")])
    consumer = engine("e")
    (claimed,) = consumer.claim()
    if how == "released":
        assert claimed.release()
    else:
        assert broker.requeue("echo", "a", 1, ErrorInfo(message="an operator wants it elsewhere")) == "returned"
    before = events_of(reader)
    assert broker.remove("echo", "a") == "removed"
    assert broker.append([message("a", seq=before[-1].seq, priority=Priority.HIGH)]) == [Appended.ADDED]
    (again,) = engine("f").claim()
    assert (again.attempt, again.tier, again.settle(Completed())) == (1, "high", "ok")
    assert [event.seq for event in before + events_of(reader)] == [1, 2, 3, 4]


def test_an_older_attempt_is_refused(broker: Broker) -> None:
    broker.append([message("a", attempt=3)])
    assert broker.append([message("a", attempt=2)]) == [Appended.SUPERSEDED]


def test_a_record_whose_entry_is_gone_gets_a_new_entry(broker: Broker, engine: MakeEngine) -> None:
    """A stream that was deleted by hand, or lost in a failover, while the records stayed."""
    broker.append([message("a"), message("b", priority=Priority.HIGH)])
    home = broker.home
    home.command("DEL", home.keys.stream("echo"))
    assert broker.append([message("a"), message("b")]) == [Appended.ADDED, Appended.DUPLICATE]
    assert [c.task_id for c in engine(capacity=5).claim()] == ["b", "a"]


def test_a_running_record_whose_stream_is_gone_is_appended_again(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", timeout_ms=60_000)])
    (claimed,) = engine().claim()
    home = broker.home
    home.command("DEL", home.keys.stream("echo"))
    assert claimed.settle(Completed()) == "lost"
    assert broker.append([message("a")]) == [Appended.ADDED]
    assert broker.records("echo", ["a"])["a"].state is RecordState.WAITING
    assert broker.pending("echo").total == 0


def test_crashes_are_not_forgotten_by_a_rebuild(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", deliveries=2, losses=1), message("b", deliveries=1)])
    consumer = engine(capacity=2)
    assert [(c.task_id, c.tier, c.deliveries) for c in consumer.claim()] == [("b", "medium", 1)]
    consumer.release()


def test_a_queue_takes_at_most_32_capability_sets_and_reuses_the_room_of_empty_ones(broker: Broker) -> None:
    broker.append([message(f"t{n}", required_capabilities=(f"cap{n}",)) for n in range(31)])
    with pytest.raises(TooManyLanes, match="queue echo has 31 capability sets"):
        broker.append([message("one-more", required_capabilities=("other",))])
    assert broker.append([message("plain")]) == [Appended.ADDED], "the plain lane always exists"
    broker.remove("echo", "plain")
    broker.remove("echo", "t5")
    assert broker.append([message("one-more", required_capabilities=("other",))]) == [Appended.ADDED]
    assert "" in broker.lanes("echo"), "an empty plain lane is not retired"


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": "Echo"},
        {"queue": "a b"},
        {"queue": "_jobs"},
        {"required_capabilities": ("a+b",)},
        {"attempt": 0},
        {"task_id": "has\ttab"},
        {"task_id": ""},
        {"parameters": object()},
        {"parameters": "x" * (8 * 1024 * 1024)},
    ],
    ids=["upper case", "space", "reserved", "plus", "attempt 0", "tab", "no id", "no JSON", "8 MiB"],
)
def test_a_wrong_message_is_refused_and_nothing_is_appended(broker: Broker, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        broker.append([message("good"), message(**{"task_id": "bad", **wrong})])
    assert broker.queues() == []


def test_many_messages_go_in_batches(broker: Broker) -> None:
    answers = broker.append([message(f"t{n}", queue=f"q{n % 3}") for n in range(1000)])
    assert set(answers) == {Appended.ADDED} and len(answers) == 1000
    assert [q.waiting for q in broker.snapshot().queues] == [334, 333, 333]
