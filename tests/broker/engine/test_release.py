"""Release: tasks of a draining engine are the next to be claimed, uncounted."""

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.protocol.types import Cause, EventKind, Tier
from tests.broker.conftest import MakeEngine, events_of, message


def test_released_tasks_are_claimed_next_and_not_charged(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine("draining", capacity=2)
    a, b = consumer.claim()
    assert consumer.release() == ["a", "b"]
    assert a.lost and consumer.held == []
    (again,) = engine("other").claim()
    assert (again.task_id, again.tier, again.deliveries, again.losses) == ("a", Tier.RECOVERED, 0, 0)
    released = [e for e in events_of(reader) if e.kind is EventKind.TASK_RELEASED]
    assert [e.task_id for e in released] == ["a", "b"]
    assert released[0].error and released[0].error.cause is Cause.DRAINED
    assert b.release() is False, "it isn't ours any more"


def test_a_suspect_stays_a_suspect(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a", deliveries=2)])
    (claimed,) = engine().claim()
    assert claimed.release() is True
    (again,) = engine().claim()
    assert again.tier is Tier.SUSPECT


def test_closing_releases_and_leaves_nothing_behind(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine("e")
    consumer.claim()
    consumer.close()
    consumer.close()
    stats = broker.snapshot().queues[0]
    assert stats.waiting == 1 and stats.running == 0 and all(lane.consumers == 0 for lane in stats.lanes)
    assert broker.registry.beat_counters() == {}


def test_a_consumer_is_forgotten_only_when_nothing_is_pending_for_it(broker: Broker, engine: MakeEngine) -> None:
    """XGROUP DELCONSUMER destroys what is pending."""
    broker.append([message("a")])
    (claimed,) = engine("busy").claim()
    home = broker.home
    assert home.run("forget_consumer", [claimed.stream], ["engines", "busy"]) == 1
    assert broker.snapshot().queues[0].lanes[2].pending == 1
