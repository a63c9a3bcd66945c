"""A claim that waits for work: neither lost nor repeated, however the wait ends."""

import threading

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.connection.scripts import load
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.protocol.messages import Completed
from tests.broker.conftest import BUDGETS, MakeEngine, message, open_consumer
from tests.broker.proxy import LossyProxy
from tests.support import wait_until


def test_a_task_that_comes_during_the_wait_is_claimed(broker: Broker, engine: MakeEngine) -> None:
    consumer = engine(capacity=2)
    assert consumer.claim() == [] and consumer.claim(timeout=0.01) == []
    late = threading.Timer(0.05, lambda: broker.append([message("a"), message("b"), message("c")]))
    late.start()
    claimed = consumer.claim(timeout=1.0)
    assert [c.task_id for c in claimed] == ["a", "b"] and consumer.held == claimed
    late.join()
    got = consumer.exchange([(c, Completed()) for c in claimed])
    assert got.settled == ["ok", "ok"] and [c.task_id for c in got.claimed] == ["c"]


def test_an_engine_that_holds_tasks_or_serves_two_queues_waits_as_well(broker: Broker, engine: MakeEngine) -> None:
    busy, two = engine(capacity=2), engine(queues=("echo", "sleep"))
    broker.append([message("a")])
    busy.claim(1)
    for consumer, task in ((busy, "b"), (two, "c")):
        late = threading.Timer(0.05, broker.append, [[message(task)]])
        late.start()
        assert [c.task_id for c in consumer.claim(timeout=1.0)] == [task]
        late.join()


def test_a_claim_whose_reply_is_lost_is_repeated_not_doubled(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    broker.append([message("a"), message("b")])
    consumer = open_consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        consumer.claim(timeout=0.05)
    assert [c.task_id for c in consumer.exchange().claimed] == ["a"]
    assert broker.snapshot().queues[0].running == 1
    consumer.close()


def test_what_a_lost_claim_took_is_released_at_the_end(broker: Broker, lossy: Broker, proxy: LossyProxy) -> None:
    broker.append([message("a")])
    consumer = open_consumer(lossy)
    proxy.lose(load("settle_and_claim").sha.encode())
    with pytest.raises(Unavailable):
        consumer.claim(timeout=0.05)
    consumer.close()
    stats = broker.snapshot().queues[0]
    assert (stats.waiting, stats.running, stats.counters["released"]) == (1, 0, 1)


def test_a_close_during_the_sleep_loses_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dalston_queue.broker.engine.consumer.MAX_SLEEP_S", 3.0)
    consumer = open_consumer(broker)
    sleeper = threading.Thread(target=lambda: consumer.claim(timeout=3.0))
    sleeper.start()
    home = broker.home
    wait_until(lambda: home.client.info("clients")["blocked_clients"], what="the sleep")
    consumer.close()
    sleeper.join()
    broker.append([message("a")])
    assert broker.snapshot().queues[0].waiting == 1
    assert home.command("EXISTS", home.keys.session("echo", "e")) == 0


def test_an_engine_that_was_judged_dead_is_fenced(broker: Broker, engine: MakeEngine) -> None:
    consumer = engine("e")
    broker.reclaim("e", ["echo"], **BUDGETS)
    broker.append([message("a")])
    with pytest.raises(Fenced):
        consumer.claim(timeout=1.0)
    consumer.open()
    assert [c.task_id for c in consumer.claim(timeout=1.0)] == ["a"]


def test_a_script_that_the_server_forgot_is_sent_again(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine("e")
    broker.home.client.script_flush()
    assert [c.task_id for c in consumer.claim(timeout=1.0)] == ["a"]
