"""A replica that missed the last calls becomes the primary: sessions continue from the number that it knows."""

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.messages import Completed
from tests.broker.conftest import message, open_consumer


def set_back(broker: Broker, number: int) -> None:
    home = broker.home
    home.command("HSET", home.keys.session("echo", "e"), "n", number)


def test_a_session_that_a_failover_set_back_goes_on(broker: Broker) -> None:
    """An asynchronous replica may miss the last calls: the sequence number it knows is older than ours."""
    broker.append([message(f"t{n}") for n in range(3)])
    made = open_consumer(broker, capacity=2)
    first = made.claim(1)
    made.exchange([(first[0], Completed())], free=1)
    set_back(broker, 1)
    assert made.exchange(free=1).claimed == [], "this call only learns the number"
    assert [c.task_id for c in made.exchange(free=1).claimed] == ["t2"]
    made.close()


def test_a_result_settled_after_a_failover_is_accepted(broker: Broker) -> None:
    """The first call only learns the number; the second call of the same exchange has the result."""
    broker.append([message(f"t{n}") for n in range(3)])
    made = open_consumer(broker)
    for _ in range(2):
        (claimed,) = made.claim()
        made.exchange([(claimed, Completed())], free=0)
    (claimed,) = made.claim()
    set_back(broker, 1)
    assert made.exchange([(claimed, Completed())], free=0).settled == ["ok"]
    assert made.held == [] and broker.snapshot().queues[0].counters["completed"] == 3
    made.close()


def test_a_session_that_another_process_uses_too_is_unavailable(broker: Broker) -> None:
    """The engine settles its results again, as after any lost connection."""
    broker.append([message("a")])
    made = open_consumer(broker)
    (claimed,) = made.claim()
    home = broker.home
    # a float has no next number there: each call finds its own number taken
    home.command("HSET", home.keys.session("echo", "e"), "n", 2**60)
    with pytest.raises(Unavailable, match="out of order"):
        made.exchange([(claimed, Completed())], free=0)
    set_back(broker, 1)
    assert made.exchange([(claimed, Completed())], free=0).settled == ["ok"]
    made.close()
