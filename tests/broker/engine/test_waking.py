"""A new task wakes one idle engine, from any server; an engine keeps no token that it can't use."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from dalston_queue.broker import Broker, Consumer, connect
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import Priority
from tests.broker.conftest import MakeEngine, message, open_consumer
from tests.broker.connection.test_topologies import QUEUES, make_cluster
from tests.broker.servers import Nodes, nodes
from tests.support import WAIT_TIMEOUT_S, wait_until


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Nodes]:
    with nodes() as made:
        yield made


@pytest.fixture
def long_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that wakes was woken: no sleep ends by itself while a busy machine has not sent the task yet."""
    monkeypatch.setattr("dalston_queue.broker.engine.consumer.MAX_SLEEP_S", WAIT_TIMEOUT_S)


def blocked(started: Nodes) -> int:
    return sum(int(node.client.info("clients")["blocked_clients"]) for node in started)


def asleep(engine: Consumer, started: Nodes, sleepers: int) -> "Future[bool]":
    """The wait() of an engine, under way on all its servers."""
    before = blocked(started)
    woken: Future[bool] = Future()
    threading.Thread(target=lambda: woken.set_result(engine.wait(WAIT_TIMEOUT_S)), daemon=True).start()
    wait_until(lambda: blocked(started) == before + sleepers, what="the sleep")
    return woken


@pytest.mark.usefixtures("long_sleep")
def test_a_busy_engine_keeps_no_token_from_an_idle_one_on_two_servers(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "high"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/high={started[1].url}")
    busy, idle = open_consumer(broker, "busy"), open_consumer(broker, "idle")
    for n, (first, second) in enumerate(((Priority.HIGH, Priority.LOW), (Priority.LOW, Priority.HIGH))):
        woken = asleep(busy, started, 2)
        broker.append([message(f"a{n}", priority=first)])
        assert woken.result() and busy.claim()
        assert blocked(started) == 0, "a busy engine waits nowhere"
        woken = asleep(idle, started, 2)
        broker.append([message(f"b{n}", priority=second)])
        assert woken.result(), "woken, and not awake because its sleep was over"
        assert [c.task_id for c in idle.claim()] == [f"b{n}"]
        for engine in (busy, idle):
            engine.exchange([(engine.held[0], Completed())])
    broker.close()


@pytest.mark.usefixtures("long_sleep")
def test_a_busy_engine_keeps_no_token_from_an_idle_one_in_a_cluster(started: Nodes, tmp_path: Path) -> None:
    broker = connect(make_cluster(started, tmp_path)[0].url, cluster=True)
    busy, idle = open_consumer(broker, "busy", QUEUES), open_consumer(broker, "idle", QUEUES)
    woken = asleep(busy, started, len(QUEUES))
    broker.append([message("a", queue=QUEUES[0])])
    assert woken.result() and busy.claim()
    assert blocked(started) == 0
    for queue in QUEUES[1:]:
        woken = asleep(idle, started, len(QUEUES))
        broker.append([message("b", queue=queue)])
        assert woken.result(), queue
        (claimed,) = idle.claim()
        assert claimed.message.queue == queue and claimed.settle(Completed()) == "ok"
    broker.close()


@pytest.mark.usefixtures("long_sleep")
def test_one_task_wakes_one_of_many_on_two_servers(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "high"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/high={started[1].url}")
    engines = [open_consumer(broker, f"e{n}") for n in range(8)]
    with ThreadPoolExecutor(len(engines)) as threads:
        waits = [threads.submit(engine.wait, 3.0) for engine in engines]
        wait_until(lambda: blocked(started) == 2 * len(engines), what="the sleep of all")
        broker.append([message("a", priority=Priority.HIGH)])
        assert sum(wait.result() for wait in waits) == 1
    broker.close()


def test_a_waiting_engine_is_woken_from_any_server(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "high"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/high={started[1].url}")
    consumer = open_consumer(broker)
    for task, priority in (("a", Priority.HIGH), ("b", Priority.LOW), ("c", Priority.HIGH)):
        broker.append([message(task, priority=priority)])
        assert wait_until(lambda: consumer.wait(1) and consumer.claim(), what="waking"), task
        consumer.held[0].settle(Completed())
    consumer.close()
    broker.close()


def test_a_token_of_another_queue_than_that_of_the_claim_is_returned(broker: Broker, engine: MakeEngine) -> None:
    consumer = engine(queues=("sleep", "echo"))
    home = broker.home
    broker.append([message("a", queue="sleep")])
    assert consumer.wait(1.0)
    broker.append([message("b", queue="echo")])
    (claimed,) = consumer.claim()
    assert claimed.message.queue == "echo", "the other queue has its turn"
    assert home.command("LLEN", home.keys.wake("sleep")) == 1, "for an idle engine of that queue"


def test_a_token_of_another_lane_than_that_of_the_claim_is_returned(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("plain"), message("gpu", required_capabilities=("gpu",), priority=Priority.HIGH)])
    consumer = engine(capabilities=["gpu"])
    assert consumer.wait(1.0)
    assert [c.task_id for c in consumer.claim()] == ["gpu"]
    assert home.command("LLEN", home.keys.wake("echo")) == 1
    assert engine().wait(1.0)


def test_a_token_that_was_used_is_not_returned(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("a")])
    consumer = engine()
    assert consumer.wait(1.0) and consumer.claim()
    assert consumer.claim(0) == []
    assert home.command("EXISTS", home.keys.wake("echo")) == 0


def test_an_engine_that_is_closed_returns_its_token(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine()
    assert consumer.wait(1.0)
    consumer.close()
    assert engine().wait(1.0)
