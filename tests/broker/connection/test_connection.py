"""Redis restarts, is full, read-only, loading or flushed: engines and readers go on, with a log line."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import redis

from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.connection.shard import Shard
from dalston_queue.broker.errors import Denied, Fenced, Misconfigured, Unavailable
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.messages import Completed, Event
from dalston_queue.broker.protocol.types import EngineState, NodeState, Role
from tests.broker.conftest import BUDGETS, Counted, MakeEngine, clean, events_of, message, open_consumer
from tests.broker.servers import Node, nodes
from tests.support import WAIT_TIMEOUT_S, wait_until


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with nodes() as made:
        made.append(
            Node(
                tmp_path / "valkey",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--maxmemory-policy",
                "noeviction",
            )
        )
        yield made[0].start()


@pytest.fixture
def filled_node(tmp_path: Path) -> Iterator[Node]:
    """With enough keys that its loading can be observed."""
    with nodes() as made:
        made.append(Node(tmp_path / "valkey"))
        made[0].start("--save", "1 1")
        made[0].client.mset({f"filler{n}": "x" * 100 for n in range(4000)})
        yield made[0]


def restart_loading(node: Node) -> None:
    """The server is back at once, and refuses all commands while it loads."""
    node.client.save()
    node.kill()
    node.start("--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024", ready=False)


def claim_one(consumer: Consumer) -> bool:
    """As an engine's loop does: wait() backs off, the call is repeated."""
    try:
        return bool(consumer.claim() or consumer.held)
    except Unavailable:
        consumer.wait(0.05)
        return False


def test_a_restarted_server_is_found_again_with_everything_in_place(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    broker = connect(node.url)
    broker.append([message("a"), message("b")])
    consumer = open_consumer(broker)
    (first,) = consumer.claim()
    node.kill()
    with pytest.raises(Unavailable, match=rf"redis://127.0.0.1:{node.port}/0 does not answer"):
        consumer.exchange([(first, Completed())])
    with caplog.at_level(logging.DEBUG):
        assert consumer.wait(0.05) is False
    assert "e waits" in caplog.text and "for Redis" in caplog.text
    node.start()
    got = consumer.exchange([(first, Completed())])
    assert got.settled == ["ok"] and [c.task_id for c in got.claimed] == ["b"]
    assert broker.snapshot().queues[0].counters["completed"] == 1
    broker.close()


def test_a_sleeping_engine_survives_the_restart(node: Node) -> None:
    broker = connect(node.url)
    consumer = open_consumer(broker)
    assert consumer.wait(0.05) is False
    node.kill()
    for _ in range(5):
        assert consumer.wait(0.02) is False
    node.start()
    broker.append([message("a")])
    wait_until(lambda: claim_one(consumer), what="the task after the restart")
    broker.close()


def test_of_two_threads_that_connect_first_the_slow_one_ends_no_call_under_way(redis_url: str, prefix: str) -> None:
    """Its client replaced the other thread's, which was closed then: "Bad file descriptor"."""
    begun, go_on = threading.Event(), threading.Event()

    def make() -> redis.Redis:
        if not begun.is_set():
            begun.set()
            go_on.wait(WAIT_TIMEOUT_S)
        return redis.Redis.from_url(redis_url)

    shard = Shard(0, "redis", Keys(prefix), make)
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(shard.now_ms)
        begun.wait(WAIT_TIMEOUT_S)
        connection = shard.pool("").get_connection()
        connection.send_command("PING")
        go_on.set()
        assert late.result() > 0
    assert connection.read_response() == b"PONG"
    shard.pool("").release(connection)
    shard.close()


def test_an_event_reader_gets_again_what_it_had_not_acknowledged(node: Node) -> None:
    broker = connect(node.url)
    broker.publish_jobs_created(["j1", "j2"])
    reader = EventReader(broker, "o")
    first = reader.read(block_ms=0)
    node.kill()
    with pytest.raises(Unavailable):
        reader.ack(first)
    with pytest.raises(Unavailable):
        reader.read()
    node.start()
    again = reader.read(block_ms=0)
    assert [e.entry_id for e in again] == [e.entry_id for e in first]
    assert reader.ack(again) == 2
    broker.close()


def test_flushall_fences_the_engine_and_the_next_open_goes_on(node: Node) -> None:
    broker = connect(node.url)
    broker.append([message("a")])
    consumer = open_consumer(broker)
    (claimed,) = consumer.claim()
    node.client.flushall()
    with pytest.raises(Fenced):
        consumer.exchange([(claimed, Completed())])
    consumer.open()
    assert broker.append([message("a", attempt=2)]) == ["added"]
    assert [c.attempt for c in consumer.claim()] == [2]
    broker.close()


def test_a_server_without_its_marker_has_lost_its_data(broker: Broker, counted: Counted) -> None:
    viewer, round_trips = counted
    assert viewer.data_lost(), "a first start"
    broker.mark()
    broker.mark()
    answers: list[bool] = []
    assert round_trips(lambda: answers.append(viewer.data_lost())) == 1 and answers == [False]
    broker.append([message("a")])
    broker.reset_queue("echo")
    assert not viewer.data_lost(), "a queue that was deleted is no loss"
    assert broker.home.command("TTL", broker.home.keys.marker()) == -1


def test_a_lost_group_or_stream_is_created_again(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine(capacity=2)
    home = broker.home
    stream = home.keys.stream("echo")
    home.client.xgroup_destroy(stream, "engines")
    assert [c.task_id for c in consumer.claim(1)] == ["a"], "the group is created at 0: what came before counts"
    home.command("DEL", stream)
    assert consumer.exchange([(consumer.held[0], Completed())]).settled == ["lost"]
    assert broker.append([message("b"), message("c")]) == ["added", "added"]
    assert [c.task_id for c in consumer.claim()] == ["b", "c"]


def test_a_server_that_became_a_replica_is_survived(node: Node) -> None:
    broker = connect(node.url)
    broker.append([message("a")])
    consumer = open_consumer(broker)
    node.client.replicaof("127.0.0.1", 1)  # no server there: read-only from now on
    for call in (consumer.claim, lambda: broker.append([message("b")]), lambda: broker.publish_jobs_created(["j"])):
        with pytest.raises(Unavailable):
            call()
    node.client.replicaof("NO", "ONE")
    assert claim_one(consumer) and broker.append([message("b")]) == ["added"]
    broker.close()


def one_turn(consumer: Consumer) -> list[str]:
    """One turn of an idle engine: it waits, then claims."""
    try:
        consumer.wait(0.02)
    except Unavailable as error:
        raise AssertionError("an idle engine's wait never raises for a server that is away") from error
    try:
        return [c.task_id for c in consumer.claim()]
    except Unavailable:
        return []


def backed_off(caplog: pytest.LogCaptureFixture, why: str) -> list[float]:
    """The seconds of each pause that was logged for this reason."""
    logged = [record for record in caplog.records if record.name == "dalston_queue.broker.engine.consumer"]
    assert all("waits" in record.getMessage() and record.levelno == logging.DEBUG for record in logged)
    return [cast("tuple[str, float, object]", record.args)[1] for record in logged if why in record.getMessage()]


def test_an_idle_engine_survives_that_its_server_is_a_replica(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "dalston_queue.broker")
    # the change comes during the sleep, not after it
    monkeypatch.setattr("dalston_queue.broker.engine.consumer.MAX_SLEEP_S", WAIT_TIMEOUT_S)
    broker = connect(node.url)
    consumer = open_consumer(broker)
    assert one_turn(consumer) == []
    with ThreadPoolExecutor(1) as sleeping:
        woken = sleeping.submit(consumer.wait, WAIT_TIMEOUT_S)
        wait_until(lambda: node.client.info("clients")["blocked_clients"], what="the sleep")
        node.client.replicaof("127.0.0.1", 1)  # no server there: read-only from now on
        assert not woken.result()
    assert len(backed_off(caplog, "UNBLOCKED")) == 1
    for _ in range(6):
        assert not consumer.wait(0.02)
    pauses = backed_off(caplog, "read only replica")
    assert len(pauses) >= 5 and pauses[-1] > 4 * pauses[0], pauses
    node.client.replicaof("NO", "ONE")
    broker.append([message("a")])
    assert wait_until(lambda: one_turn(consumer), what="the task") == ["a"]
    assert consumer.held[0].settle(Completed()) == "ok"
    broker.close()


def test_an_idle_engine_survives_that_its_server_is_loading(
    filled_node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dalston_queue.broker")
    broker = connect(filled_node.url)
    consumer = open_consumer(broker)
    assert one_turn(consumer) == []
    broker.append([message("a")])
    restart_loading(filled_node)
    assert wait_until(lambda: one_turn(consumer), what="the task") == ["a"]
    pauses = backed_off(caplog, "for Redis")
    assert len(backed_off(caplog, "loading")) > 3 and pauses[-1] > 3 * pauses[0], pauses
    assert consumer.held[0].settle(Completed()) == "ok"
    broker.close()


def test_a_server_that_is_still_loading_is_waited_for(filled_node: Node) -> None:
    broker = connect(filled_node.url)
    broker.append([message("a")])
    consumer = open_consumer(broker)
    restart_loading(filled_node)
    errors: list[str] = []

    def gone_through() -> bool:
        try:
            return bool(consumer.claim())
        except Unavailable as error:
            errors.append(str(error))
            return False

    wait_until(gone_through, what="the server to have loaded")
    assert any("loading" in text.lower() for text in errors), errors[-3:]
    broker.close()


def test_a_full_server_refuses_appends_only(node: Node, tmp_path: Path) -> None:
    """At maxmemory everything that drains, beats or leads goes on. Reproduced: settle, beats and the lease failed."""
    broker = connect(node.url)
    broker.append([message(f"t{n}", parameters="x" * 1000) for n in range(200)])
    consumer = open_consumer(broker, capacity=4)
    node.client.config_set("maxmemory", "1mb")
    with pytest.raises(Denied, match="out of memory"):
        broker.append([message("more")])
    lease = broker.lease(Role.ORCHESTRATOR, "me")
    assert lease.acquire(1) and lease.renew()
    beat = EngineBeat(engine_id="e", state=EngineState.READY, queues=("echo",))
    broker.registry.beat_node("n", NodeState.ACTIVE, [beat])
    assert broker.registry.engines()[0].beat == 1
    claimed = consumer.claim()
    consumer.renew_all({claimed[0].task_id: 1})
    assert consumer.exchange([(c, Completed("y" * 1000)) for c in claimed[:2]]).settled == ["ok", "ok"]
    assert broker.request_cancel("echo", "t100") == "removed"
    assert consumer.release()
    reader = EventReader(broker, "o")
    assert len(events_of(reader)) > 4
    taken = consumer.claim(2)
    assert broker.reclaim("e", ["echo"], **BUDGETS).moved == len(taken) == 2
    node.client.config_set("maxmemory", "0")
    assert broker.append([message("more")]) == ["added"]
    broker.close()


def test_boot_checks_what_would_lose_work(node: Node) -> None:
    broker = connect(node.url)
    assert broker.check() == []
    node.client.config_set("maxmemory-policy", "allkeys-lru")
    node.client.config_set("appendonly", "no")
    findings = broker.check()
    assert any("noeviction" in text for text in findings) and any("append-only" in text for text in findings)
    assert broker.ping() < 5
    broker.close()


def test_acl_users_and_wrong_passwords(node: Node) -> None:
    node.client.execute_command("ACL", "SETUSER", "engine", "on", ">secret", "~dalston:*", "+@all", "-flushall")
    broker = connect(f"redis://engine:secret@127.0.0.1:{node.port}/0")
    assert broker.append([message("a")]) == ["added"]
    other = connect(f"redis://engine:secret@127.0.0.1:{node.port}/0", prefix="foreign")
    with pytest.raises(Misconfigured, match="refuses us"):
        other.append([message("a")])
    with pytest.raises(Misconfigured, match="refuses us") as refused:
        connect(f"redis://engine:wrong@127.0.0.1:{node.port}/0").append([message("a")])
    assert "wrong@" not in str(refused.value), "no password in a message"
    broker.close()


def test_a_sleep_may_be_longer_than_the_socket_timeout(
    redis_url: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client's default is 5 s, shorter than many a BLOCK: each sleep of an idle engine would end in an error."""
    broker = connect(redis_url, prefix=prefix, timeout_s=0.3)
    consumer, reader = Consumer(broker, "e", ["echo"]), EventReader(broker, "o")
    consumer.open()
    assert consumer.claim() == []
    sleeps: list[Callable[[], object]] = [
        lambda: consumer.wait(1.0),
        lambda: consumer.claim(timeout=1.0),
        lambda: reader.read(block_ms=1000),
    ]
    for sleep in sleeps:
        start = time.monotonic()
        assert not sleep()
        assert time.monotonic() - start > 0.7, "it slept on"
    assert caplog.records == [], "and did not back off"
    broker.append([message("a")])
    assert [c.task_id for c in consumer.claim(timeout=1.0)] == ["a"]
    assert [e.task_id for e in reader.read() if isinstance(e, Event)] == ["a"]
    consumer.close()
    reader.close()
    clean(broker)
