"""Topologies: the same broker on two servers, behind Sentinel, in a cluster, and over TLS."""

import ssl
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from dalston_queue.broker import Broker, Consumer, EventReader, connect
from dalston_queue.broker.errors import Fenced, Unavailable
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Cancelled, Completed, Event
from dalston_queue.broker.protocol.types import Cause, EngineState, EventKind, NodeState, Priority, Role, Tier
from dalston_queue.broker.views.pages import PendingOrder
from dalston_queue.broker.views.snapshot import rates
from tests.broker.conftest import BUDGETS, clean, events_of, message, open_consumer
from tests.broker.proxy import LossyProxy
from tests.broker.servers import Node, Nodes, nodes
from tests.support import WAIT_TIMEOUT_S, Found, need_tool, reserve_port, wait_until

QUEUES = ("echo", "sleep", "transcribe")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Nodes]:
    with nodes() as made:
        yield made


def walk_through(broker: Broker) -> None:
    """Tasks of three queues from append to result, with every operation that touches several keys."""
    broker.publish_jobs_created(["j"])
    tasks = [
        message(
            f"{queue}-{priority}-{n}", queue=queue, priority=priority, timeout_ms=60_000, required_capabilities=caps
        )
        for queue in QUEUES
        for priority in Priority
        for n, caps in enumerate(((), ("gpu",)))
    ]
    assert set(broker.append(tasks)) == {"added"} and set(broker.append(tasks)) == {"duplicate"}
    assert broker.queues() == sorted(QUEUES)
    consumer = Consumer(broker, "e1", QUEUES, ["gpu"], capacity=4)
    consumer.open()
    beat = EngineBeat(engine_id="e1", state=EngineState.READY, queues=QUEUES)
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat])
    assert broker.registry.beat_counters()["e1"].counters.keys() == set(QUEUES)
    command_id = broker.node("n1").send(Command(name="drain"))
    broker.node("n1").reply(Reply(command_id=command_id, state=CommandState.DONE))
    assert [status.state for status in broker.node("n1").recent()] == ["done"]
    claimed = consumer.claim()
    assert len(claimed) == 4
    consumer.renew_all({claimed[0].task_id: {"percent": 1}})
    assert broker.request_cancel(claimed[1].message.queue, claimed[1].task_id) == "flagged"
    assert consumer.renew_all().cancelled == [claimed[1]]
    assert claimed[0].settle(Completed()) == "ok" and claimed[2].release()
    stats = broker.snapshot()
    assert sum(q.waiting for q in stats.queues) == 15 and sum(q.running for q in stats.queues) == 2
    paged = sum(broker.pending(queue, order=PendingOrder.DEADLINE).total for queue in QUEUES)
    assert paged == 2
    assert broker.reclaim("e1", QUEUES, Cause.NODE_LOST, **BUDGETS).moved == 2
    with pytest.raises(Fenced):
        consumer.exchange(free=1)
    consumer.open()
    waiting = next(
        t for t in tasks if broker.records(t.queue, [t.task_id]).get(t.task_id, None) and t.task_id.endswith("low-1")
    )
    assert broker.remove(waiting.queue, waiting.task_id) == "removed"
    seen = set()
    while claimed := consumer.claim():
        seen |= {c.task_id for c in claimed}
        consumer.exchange([(c, Completed()) for c in claimed], free=0)
    assert len(seen) == 16, ({t.task_id for t in tasks} - seen, broker.snapshot())
    reader = EventReader(broker, "o1")
    kinds = [e.kind for _ in range(3) for e in events_of(reader)]
    assert (kinds.count(EventKind.TASK_COMPLETED), kinds.count(EventKind.JOB_CREATED)) == (17, 1)
    assert all(broker.records(queue, [t.task_id for t in tasks]) == {} for queue in QUEUES)
    lease = broker.lease(Role.HOUSEKEEPING, "me")
    assert lease.acquire(1) and lease.release()
    assert broker.check() is not None and broker.ping() < 5
    consumer.close()
    reader.close()


def test_two_servers_high_and_low(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "high", "low"):
        started.start(tmp_path / name)
    home, high, low = started
    broker = connect(home.url, shards=f"*/high={high.url},*/low={low.url}")
    walk_through(broker)
    broker.append([message("h", priority=Priority.HIGH), message("l", priority=Priority.LOW), message("m")])
    assert [node.client.hkeys("dalston:tasks:echo") for node in started] == [["m"], ["h"], ["l"]]
    broker.close()


def test_high_work_comes_first_over_all_shards(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "low"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/low={started[1].url}")
    broker.append([message(f"{p}{n}", priority=p) for p in (Priority.LOW, Priority.HIGH) for n in range(3)])
    consumer = open_consumer(broker)
    order = []
    claimed = consumer.claim()
    while claimed:
        order.append(claimed[0].task_id)
        claimed = consumer.exchange([(claimed[0], Completed())]).claimed
    assert order == ["high0", "high1", "high2", "low0", "low1", "low2"]
    broker.close()


def test_each_shard_has_rates_of_its_own(started: Nodes, tmp_path: Path) -> None:
    for name in ("home", "low"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/low={started[1].url}")
    broker.append([message("before"), message("there", priority=Priority.LOW)])
    first = broker.snapshot()
    broker.append([message(f"t{n}") for n in range(10)])
    wait_until(lambda: broker.home.now_ms() > first.at_ms, what="the clock to move")
    second = broker.snapshot()
    seconds = (second.at_ms - first.at_ms) / 1000
    found = rates(first, second)
    medium = {lane.shard: lane for lane in second.queues[0].lanes if lane.tier is Tier.MEDIUM}
    home, low = (shard.index for shard in (broker.home, broker.shard_for("echo", Priority.LOW)))
    assert medium[home].stream == medium[low].stream, "the same name in both"
    assert round(found[medium[home].name].in_per_s * seconds) == 10
    assert found[medium[low].name].in_per_s == 0
    broker.close()


@pytest.fixture
def pair(started: Nodes, tmp_path: Path) -> Iterator[Broker]:
    """Two servers: low tasks live in the second."""
    home, low = started.start(tmp_path / "home"), started.start(tmp_path / "low")
    broker = connect(home.url, shards=f"*/low={low.url}")
    yield broker
    broker.close()


@pytest.mark.parametrize("runs", [False, True])
def test_a_new_attempt_does_not_run_beside_the_old_one_in_another_shard(pair: Broker, runs: bool) -> None:
    pair.append([message("a", priority=Priority.LOW)])
    consumer = open_consumer(pair)
    old = consumer.claim() if runs else []
    assert pair.append([message("a", attempt=2)]) == ["added"]
    assert consumer.renew_all().cancelled == old
    ended = consumer.exchange([(claimed, Cancelled()) for claimed in old])
    (claimed,) = ended.claimed
    assert (claimed.attempt, claimed.tier, claimed.settle(Completed())) == (2, Tier.MEDIUM, "ok")
    assert consumer.claim() == []


def test_an_attempt_whose_priority_has_changed_has_one_entry_over_all_shards(pair: Broker) -> None:
    """A dispatcher died after the append and before its commit, and the task aged before the next dispatch."""
    pair.append([message("a", priority=Priority.LOW)])
    assert pair.append([message("a", priority=Priority.HIGH)]) == ["duplicate"]
    low = pair.shard_for("echo", Priority.LOW)
    low.command("DEL", low.keys.stream("echo", "", Tier.LOW))
    assert pair.append([message("a", priority=Priority.HIGH)]) == ["added"], "its entry was gone"
    consumer = open_consumer(pair)
    (claimed,) = consumer.claim()
    assert claimed.settle(Completed()) == "ok" and consumer.claim() == []
    assert pair.append([message("a", priority=Priority.HIGH)]) == ["settled"]


def test_tasks_are_removed_from_several_shards_and_appended_to_another(pair: Broker) -> None:
    low = [message(f"low{n}", priority=Priority.LOW) for n in range(3)]
    pair.append([*low, message("high", priority=Priority.HIGH)])
    assert pair.remove_many("echo", [("low0", 1), ("high", 1), ("low2", 1), ("no", 1)]) == [*["removed"] * 3, "absent"]
    assert pair.append([message("low2", priority=Priority.HIGH)]) == ["added"]
    consumer = open_consumer(pair, capacity=4)
    assert [(c.task_id, c.tier) for c in consumer.claim()] == [("low2", Tier.HIGH), ("low1", Tier.LOW)]


def test_each_shard_that_loses_its_data_is_seen(pair: Broker) -> None:
    for shard in pair.shards:
        assert pair.data_lost()
        pair.mark()
        assert not pair.data_lost()
        shard.client.flushdb()
    assert pair.data_lost()


def test_a_failover_by_sentinel(started: Nodes, tmp_path: Path) -> None:
    primary = started.start(tmp_path / "primary")
    replica = started.start(tmp_path / "replica", "--replicaof", f"127.0.0.1 {primary.port}")
    lines = [
        f"sentinel monitor dalston 127.0.0.1 {primary.port} 1",
        "sentinel down-after-milliseconds dalston 2000",
        "sentinel failover-timeout dalston 2000",
    ]
    sentinel = started.start(tmp_path / "sentinel", *lines, role="sentinel")
    wait_until(lambda: replica.client.info("replication")["master_link_status"] == "up", what="replication")
    wait_until(lambda: sentinel.client.execute_command("SENTINEL", "REPLICAS", "dalston"), what="discovery")
    broker = connect(f"redis+sentinel://127.0.0.1:{sentinel.port}/dalston/0")
    broker.append([message(f"t{n}") for n in range(4)])
    consumer = open_consumer(broker)
    (first,) = consumer.claim()
    wait_until(lambda: replica.client.hlen("dalston:tasks:echo") == 4, what="the replica to have it")
    wait_until(lambda: replica.client.zcard("dalston:running:echo") == 1, what="the replica to have the claim")
    primary.kill()

    def settled() -> bool:
        try:
            return consumer.exchange([(first, Completed())]).settled == ["ok"]
        except Unavailable:
            consumer.wait(0.05)
            return False

    wait_until(settled, what="the engine to go on with the new primary")
    assert consumer.held[0].task_id == "t1"
    assert broker.snapshot().queues[0].counters["completed"] == 1
    broker.close()


def make_cluster(started: Nodes, tmp_path: Path) -> list[Node]:
    flags = ("--cluster-enabled", "yes", "--cluster-node-timeout", "15000", "--cluster-config-file", "nodes.conf")
    buses = [reserve_port() for _ in range(3)]
    members = [
        started.start(tmp_path / f"cluster{n}", *flags, "--cluster-port", str(bus)) for n, bus in enumerate(buses)
    ]
    for n, member in enumerate(members):
        first, last = n * 16384 // 3, (n + 1) * 16384 // 3 - 1
        ask(member, "ADDSLOTSRANGE", first, last)
        if n:
            ask(member, "MEET", "127.0.0.1", members[0].port, buses[0])
    wait_until(lambda: all("cluster_state:ok" in ask(m, "INFO") for m in members), what="the cluster")
    wait_until(lambda: all("cluster_known_nodes:3" in ask(m, "INFO") for m in members), what="its members")
    return members


def ask(node: Node, *words: str | int) -> str:
    """A CLUSTER command, the answer as text."""
    connection = redis.Connection(port=node.port, decode_responses=True)
    connection.send_command("CLUSTER", *words)
    answer = str(connection.read_response())
    connection.disconnect()
    return answer


def test_a_cluster_of_three(started: Nodes, tmp_path: Path) -> None:
    members = make_cluster(started, tmp_path)
    broker = connect(members[1].url, cluster=True)
    walk_through(broker)
    slots = {key_slot(f"dalston:tasks:{{{queue}}}".encode()) * 3 // 16384 for queue in QUEUES}
    assert len(slots) > 1, "the queues spread over the servers"
    consumer = open_consumer(broker, "e", QUEUES)
    for queue in QUEUES:
        broker.append([message("wake", queue=queue)])
        assert wait_until(lambda: consumer.wait(1) and consumer.claim(), what=f"waking for {queue}")
        consumer.held[0].settle(Completed())
    broker.close()


def test_a_slot_that_moves_is_followed_by_a_live_engine(started: Nodes, tmp_path: Path) -> None:
    """First while it runs a task, then while it sleeps; with all keys of the slot, as a rebalance does it."""
    members = make_cluster(started, tmp_path)
    broker = connect(members[0].url, cluster=True)
    consumer, reader = Consumer(broker, "e", ["echo"]), EventReader(broker, "o")
    consumer.open()
    broker.append([message("a"), message("b")])
    assert not reader.read(block_ms=0) and consumer.wait(0.01), "all its connections are open"
    (first,) = consumer.claim()

    def tried(call: Callable[[], Found]) -> Found | None:
        try:
            return call()
        except Unavailable:
            return None

    move_slot(members, key_slot(b"{echo}"))
    got = wait_until(lambda: tried(lambda: consumer.exchange([(first, Completed())])), what="the new server")
    assert got.settled == ["ok"] and [c.task_id for c in got.claimed] == ["b"]
    assert got.claimed[0].settle(Completed()) == "ok"

    def claimed() -> list[str]:
        return [c.task_id for c in tried(lambda: consumer.claim(timeout=1.0)) or ()]

    with ThreadPoolExecutor(1) as sleeping:
        found = sleeping.submit(wait_until, claimed, what="the task at the next server")
        wait_until(lambda: any(m.client.info("clients")["blocked_clients"] for m in members), what="the sleep")
        target = move_slot(members, key_slot(b"{echo}"))
        wait_until(lambda: tried(lambda: broker.append([message("c")])), what="the queue at its next server")
        assert found.result() == ["c"]
    assert target.client.hlen("dalston:tasks:{echo}") == 3
    assert consumer.held[0].settle(Completed()) == "ok"
    events = wait_until(lambda: tried(lambda: events_of(reader)), what="the events")
    assert [e.task_id for e in events if e.kind is EventKind.TASK_COMPLETED] == ["a", "b", "c"]
    (stats,) = broker.snapshot().queues
    assert stats.counters == {"appended": 3, "completed": 3}
    broker.close()


def move_slot(members: list[Node], slot: int) -> Node:
    """Move a slot with its keys to the next member, which is returned."""
    owner = next(m for m in members if owns(m, slot))
    target = members[(members.index(owner) + 1) % len(members)]
    ask(target, "SETSLOT", slot, "IMPORTING", ask(owner, "MYID"))
    ask(owner, "SETSLOT", slot, "MIGRATING", ask(target, "MYID"))
    while keys := owner.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
        owner.client.migrate("127.0.0.1", target.port, keys, 0, 5000)
    for member in (target, owner, *members):
        ask(member, "SETSLOT", slot, "NODE", ask(target, "MYID"))
    return target


def owns(node: Node, slot: int) -> bool:
    (mine,) = [row for row in ask(node, "NODES").splitlines() if "myself" in row]
    ranges = [part.partition("-") for part in mine.split()[8:]]
    return any(int(first) <= slot <= int(last or first) for first, _, last in ranges)


def test_tls(redis_url: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's server has no TLS, so a proxy terminates it; the client's side is the real code."""
    monkeypatch.setattr("dalston_queue.broker.engine.consumer.MAX_SLEEP_S", WAIT_TIMEOUT_S)
    openssl = need_tool("openssl")
    request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*request, *names], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    proxy = LossyProxy(redis_url, tls=context)
    url = proxy.url.replace("redis://", "rediss://")
    trusting = connect(f"{url}?ssl_ca_certs={tmp_path / 'cert.pem'}", prefix=prefix)
    assert trusting.ping() < 5
    with pytest.raises(Unavailable, match="certificate"):
        connect(url, prefix=prefix).ping()
    consumer, reader = Consumer(trusting, "e", ["echo"], capacity=2), EventReader(trusting, "o")
    consumer.open()
    large = "x" * 300_000  # more than one record of TLS, and than one read
    trusting.append([message(f"t{n}", parameters=large) for n in range(3)])
    first, second = consumer.claim()
    assert first.progress({"percent": 1}) and first.message.parameters == large
    got = consumer.exchange([(first, Completed(large)), (second, Completed())])
    assert got.settled == ["ok", "ok"] and [c.task_id for c in got.claimed] == ["t2"]
    assert consumer.held[0].settle(Completed()) == "ok"
    events = events_of(reader)
    assert [e.task_id for e in events if e.kind is EventKind.TASK_COMPLETED] == ["t0", "t1", "t2"]
    assert events[-1].result is None and large in [e.result for e in events]
    with ThreadPoolExecutor(2) as sleeping:
        for task, sleep in (("a", consumer.wait), ("b", partial(consumer.claim, None))):
            assert consumer.claim() == [] and not sleep(0.01), "nothing is there"
            woken = sleeping.submit(sleep, WAIT_TIMEOUT_S)
            reading = sleeping.submit(reader.read, block_ms=1000 * WAIT_TIMEOUT_S)
            wait_until(lambda: trusting.home.client.info("clients")["blocked_clients"] == 2, what="both asleep")
            trusting.append([message(task)])
            assert woken.result()
            assert [c.task_id for c in consumer.held or consumer.claim()] == [task]
            started = reading.result() or reader.read()
            assert [(e.kind, e.task_id) for e in started if isinstance(e, Event)] == [(EventKind.TASK_STARTED, task)]
            reader.ack(started)
            assert consumer.held[0].settle(Completed()) == "ok"
            events_of(reader)
    consumer.close()
    reader.close()
    clean(trusting)
    proxy.close()


def test_an_engine_is_judged_on_each_shard_by_the_counter_there(started: Nodes, tmp_path: Path) -> None:
    """One server was away for some beats: its counter is behind, and the dead must be reclaimed from there as well."""
    for name in ("home", "low"):
        started.start(tmp_path / name)
    broker = connect(started[0].url, shards=f"*/low={started[1].url}")
    broker.append([message("a", priority=Priority.LOW), message("b")])
    consumer = open_consumer(broker, capacity=2)
    assert len(consumer.claim()) == 2
    at_home = started[0].client.hincrby("dalston:beats:echo", "e", 7)
    beats = broker.registry.beat_counters()["e"]
    ahead, behind = beats.counters["echo"]
    assert ahead == at_home != behind
    broker.registry.condemn(beats)
    assert list(broker.registry.dead("echo")) == ["e"]
    taken = broker.reclaim("e", ["echo"], Cause.NODE_LOST, judged=beats.counters, **BUDGETS)
    assert set(taken.recovered) == {"a", "b"} and not taken.alive
    broker.close()
