"""Requeue by an operator: the task is the next to be claimed, not charged, and its old result is refused."""

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EventKind, Settled, Tier
from tests.broker.conftest import MakeEngine, events_of, message

ERROR = ErrorInfo(message="ada wants it elsewhere", cause=Cause.DRAINED)


def test_it_is_claimed_next_and_not_charged(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a", required_capabilities=("gpu",)), message("b", required_capabilities=("gpu",))])
    slow = engine("slow", capabilities=("gpu",))
    (claimed,) = slow.claim()
    assert broker.requeue("echo", "a", 1, ERROR, entry_id=claimed.entry_id) == "returned"
    (again,) = engine("other", capabilities=("gpu",)).claim()
    assert (again.task_id, again.tier, again.attempt, again.deliveries) == ("a", Tier.RECOVERED, 1, 0)
    assert [lost.task_id for lost in slow.renew_all().lost] == ["a"]
    [released] = [e for e in events_of(reader) if e.kind is EventKind.TASK_RELEASED]
    assert (released.engine_id, released.error.message) == ("slow", "ada wants it elsewhere")


def test_the_result_of_the_engine_it_was_taken_from_does_not_count(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    slow = engine("slow")
    (claimed,) = slow.claim()
    broker.requeue("echo", "a", 1, ERROR)
    assert slow.exchange([(claimed, Completed())], free=0).settled == [Settled.LOST]


def test_of_two_operators_the_second_learns_that_the_task_waits(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    (claimed,) = engine("slow").claim()
    assert broker.requeue("echo", "a", 1, ERROR, entry_id=claimed.entry_id) == "returned"
    assert broker.requeue("echo", "a", 1, ERROR, entry_id=claimed.entry_id) == "waiting"
    engine("other").claim()
    assert broker.requeue("echo", "a", 1, ERROR, entry_id=claimed.entry_id) == "changed", "not from the next engine"
    assert broker.requeue("echo", "a", 2, ERROR) == broker.requeue("echo", "no", 1, ERROR) == "absent"


def test_a_suspect_stays_a_suspect(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", deliveries=2)])
    engine("slow").claim()
    broker.requeue("echo", "a", 1, ERROR)
    (again,) = engine("other").claim()
    assert again.tier is Tier.SUSPECT
