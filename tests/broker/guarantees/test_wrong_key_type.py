"""Keys and values that other programs wrote: a damaged queue stops or is repaired, and everything else goes on."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from dalston_queue.broker import Broker, Consumer, EventReader
from dalston_queue.broker.errors import Fenced, WrongKeyType
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed, Event
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState, Priority, RecordState, Settled, Tier
from tests.broker.conftest import BUDGETS, MakeEngine, events_of, message


def beat(broker: Broker, *engines: str) -> None:
    beats = [EngineBeat(engine_id=name, state=EngineState.READY, queues=("echo",)) for name in engines]
    broker.registry.beat_node("n1", NodeState.ACTIVE, beats)


def test_a_beat_counter_that_is_no_number_hides_no_engine_and_the_next_beat_repairs_it(broker: Broker) -> None:
    beat(broker, "e1", "e2")
    home = broker.home
    home.command("HSET", home.keys.beats("echo"), "e1", "junk", b"\xff", "1")
    home.command("HSET", home.keys.engine("e1"), "beat", "junk")
    assert {name: each.counters for name, each in broker.registry.beat_counters().items()} == {
        "e1": {"echo": (0,)},
        "e2": {"echo": (1,)},
    }
    beat(broker, "e1", "e2")
    repaired = broker.registry.beat_counters()
    assert repaired["e1"].counters["echo"] > (1_000_000_000_000,), "from the clock: no counter comes back"
    assert repaired["e2"].counters == {"echo": (2,)}
    assert [engine.engine_id for engine in broker.registry.engines()] == ["e1", "e2"]


def test_an_engine_whose_beat_counter_is_no_number_can_be_opened_judged_and_reclaimed(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a")])
    home = broker.home
    home.command("HSET", home.keys.beats("echo"), "e1", "junk")
    engine("e1").claim()
    home.command("HSET", home.keys.beats("echo"), "e1", "junk")
    beats = broker.registry.beat_counters()["e1"]
    broker.registry.condemn(beats)
    taken = broker.reclaim("e1", beats.counters, Cause.NODE_LOST, judged=beats.counters, **BUDGETS)
    assert taken.recovered == ("a",)


def test_an_invalid_verdict_condemns_no_engine(broker: Broker, engine: MakeEngine) -> None:
    consumer, other = engine("e1"), engine("e2")
    beats = broker.registry.beat_counters()
    broker.registry.condemn(beats["e1"], Cause.NODE_LOST)
    home = broker.home
    (counter,) = beats["e2"].counters["echo"]
    home.command("HSET", home.keys.verdicts("echo"), "e2", f"{counter}:nonsense", b"\xff", "1:node_lost")
    home.command("HSET", home.keys.beats("echo"), b"\xff", "1")
    assert broker.registry.dead("echo") == {"e1": Cause.NODE_LOST}
    assert other.reclaim() == 0 and consumer.held == []


def test_invalid_task_ids_stop_no_reads(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("a")])
    record = home.command("HGET", home.keys.tasks("echo"), "a")
    home.command("HSET", home.keys.tasks("echo"), b"\xff", record)
    assert [list(page) for page in broker.scan_records("echo")] == [["a"]]
    engine().claim()
    home.command("ZADD", home.keys.running("echo"), 1, b"\xff")
    assert [entry.task_id for entry in broker.pending("echo").entries] == ["\ufffd", "a"]


KINDS = [
    "tasks",
    "running",
    "deadlines",
    "beats",
    "verdicts",
    "lanes",
    "events",
    "counters",
    "wake",
]


@contextlib.contextmanager
def key_of_wrong_type(broker: Broker, kind: str) -> Iterator[None]:
    """A key of the queue `bad` is a string. The queue had two tasks; `echo` has one."""
    home = broker.home
    broker.append([message("b1", queue="bad"), message("b2", queue="bad", enqueued_at_ms=1000), message("e1")])
    key = getattr(home.keys, kind)("bad") if kind in KINDS else home.keys.stream("bad", "", Tier(kind))
    home.command("DEL", key)
    home.command("SET", key, "not ours")
    yield
    # tokens are only hints: a wake key of another type may be deleted
    assert kind == "wake" or home.command("GET", key) == b"not ours"
    home.command("DEL", key)
    home.command("DEL", home.keys.stream("bad"))  # reset_queue finds it by its lanes only


@pytest.fixture(params=[*KINDS, *Tier])
def wrong_type(request: pytest.FixtureRequest, broker: Broker) -> Iterator[None]:
    with key_of_wrong_type(broker, request.param):
        yield


@pytest.mark.usefixtures("wrong_type")
def test_a_key_of_another_type_stops_no_other_queue(broker: Broker, engine: MakeEngine) -> None:
    reader = EventReader(broker, "o1")
    reader.ack(reader.read(block_ms=0))
    consumer = engine("n1.e1", capacity=2)
    assert [claimed.task_id for claimed in consumer.claim()] == ["e1"]
    beat = EngineBeat(engine_id="n1.e1", state=EngineState.READY, queues=("bad", "echo"))
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat])
    assert broker.registry.beat_counters()["n1.e1"].counters["echo"] > (0,)
    assert {stats.queue: stats.running for stats in broker.snapshot().queues}["echo"] == 1
    reader.ack(reader.take_over(idle_ms=0))
    assert [event.task_id for event in reader.read(block_ms=0) if isinstance(event, Event)] == ["e1"]
    with contextlib.suppress(WrongKeyType):
        broker.reclaim("n1.e1", ["bad", "echo"], Cause.NODE_LOST, **BUDGETS)
    assert broker.records("echo", ["e1"])["e1"].state is RecordState.WAITING, "reclaimed from the good queue"
    reader.close()


@pytest.mark.parametrize("kind", [*KINDS, *Tier])
def test_an_engine_of_two_queues_works_on_in_the_one_that_has_the_right_type(
    broker: Broker, engine: MakeEngine, kind: str
) -> None:
    consumer = engine("n1.e1", ("bad", "echo"), capacity=4)
    with key_of_wrong_type(broker, kind):
        for task in ("e1", "e2", "e3"):
            broker.append([message(task)])
            while consumer.exchange().claimed:
                pass
            (mine,) = [claimed for claimed in consumer.held if claimed.message.queue == "echo"]
            assert (mine.task_id, mine.renew(), consumer.renew_all().lost, mine.settle(Completed())) == (
                task,
                True,
                [],
                "ok",
            )


@pytest.mark.usefixtures("wrong_type")
def test_every_operation_on_a_key_of_another_type_works_or_raises_its_error(broker: Broker) -> None:
    consumer = Consumer(broker, "n1.e2", ["bad"], capacity=4)
    calls: list[Callable[[], object]] = [
        consumer.open,
        lambda: broker.append([message(f"b{tier}", queue="bad", priority=tier) for tier in Priority]),
        consumer.claim,
        lambda: consumer.claim(timeout=0.01),
        consumer.renew_all,
        lambda: broker.pending("bad"),
        lambda: broker.registry.dead("bad"),
        lambda: broker.acknowledge_ghosts("bad"),
        consumer.release,
        lambda: broker.reclaim("n1.e2", ["bad"], **BUDGETS),
    ]
    for call in calls:
        with contextlib.suppress(WrongKeyType, Fenced):
            call()


@pytest.mark.parametrize("how", ["release", "reclaim"])
def test_work_whose_new_stream_has_a_wrong_type_stays_where_it_was(
    broker: Broker, engine: MakeEngine, reader: EventReader, how: str
) -> None:
    home = broker.home
    recovered = home.keys.stream("echo", "", Tier.RECOVERED)
    home.command("SET", recovered, "not ours")
    broker.append([message("a")])
    consumer = engine("e1")
    consumer.claim()
    if how == "reclaim":
        assert broker.reclaim("e1", ["echo"], **BUDGETS).recovered == ("a",)
        consumer.open()
    else:
        assert consumer.release() == ["a"]
    (claimed,) = consumer.claim()
    assert (claimed.task_id, claimed.tier, claimed.settle(Completed())) == ("a", Tier.MEDIUM, "ok")
    assert [event.tier for event in events_of(reader) if event.tier] == [Tier.MEDIUM]
    home.command("DEL", recovered)


def test_a_lane_of_a_wrong_type_is_named_and_the_other_lanes_of_the_batch_are_filled(broker: Broker) -> None:
    home = broker.home
    high = home.keys.stream("echo", "", Tier.HIGH)
    home.command("SET", high, "not ours")
    batch = [message("a", priority=Priority.HIGH), message("b"), message("c", queue="other")]
    with pytest.raises(WrongKeyType, match=f"nothing can be appended to {high}"):
        broker.append(batch)
    assert broker.append(batch[1:]) == ["duplicate", "duplicate"]
    home.command("DEL", high)
    assert broker.append(batch) == ["added", "duplicate", "duplicate"]


@pytest.mark.parametrize("value", ["junk", "9223372036854775807"])
def test_a_counter_that_can_not_be_raised_costs_only_its_count(broker: Broker, engine: MakeEngine, value: str) -> None:
    home = broker.home
    for name in ("appended", "completed", "released", "removed"):
        home.command("HSET", home.keys.counters("echo"), name, value)
    assert broker.append([message("a"), message("b"), message("c")]) == ["added"] * 3
    consumer = engine(capacity=2)
    first, second = consumer.claim()
    assert first.settle(Completed()) is Settled.ACCEPTED
    assert second.release()
    assert broker.remove("echo", "c") == "removed"


def test_a_task_keeps_its_entry_until_its_event_can_be_written(broker: Broker, engine: MakeEngine) -> None:
    """The last delivery of a task is reclaimed while the key of the events has another type, then again."""
    home, reader = broker.home, EventReader(broker, "o1")
    broker.append([message("a")])
    engine("n1.e1").claim()
    reader.ack(reader.read(block_ms=0))
    home.command("DEL", home.keys.events("echo"))
    home.command("SET", home.keys.events("echo"), "not ours")
    with pytest.raises(WrongKeyType):
        broker.reclaim("n1.e1", ["echo"], max_deliveries=1, max_losses=10)
    home.command("DEL", home.keys.events("echo"))
    assert broker.reclaim("n1.e1", ["echo"], max_deliveries=1, max_losses=10).exhausted == ("a",)
    assert [(event.kind, event.task_id) for event in events_of(EventReader(broker, "o2"))] == [("task.exhausted", "a")]


def test_a_result_of_one_queue_is_settled_while_another_queue_is_damaged(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("b", queue="bad"), message("e")])
    consumer = engine(queues=["bad", "echo"], capacity=2)
    results = [(delivery, Completed()) for delivery in consumer.claim()]
    home.command("RENAME", home.keys.tasks("bad"), "kept")
    home.command("SET", home.keys.tasks("bad"), "not ours")
    with pytest.raises(WrongKeyType):
        consumer.exchange(results)
    assert broker.snapshot(["echo"]).queues[0].counters["completed"] == 1
    home.command("RENAME", "kept", home.keys.tasks("bad"))
    assert consumer.exchange(results).settled == [Settled.ACCEPTED, Settled.ACCEPTED]


def test_a_session_whose_number_is_damaged_is_fenced(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine("n1.e1")
    broker.home.command("HSET", broker.home.keys.session("echo", "n1.e1"), "n", "junk")
    with pytest.raises(Fenced):
        consumer.claim()


def test_a_lanes_version_that_is_no_number_is_named_as_a_damaged_key(broker: Broker) -> None:
    broker.append([message("a")])
    broker.home.command("HSET", broker.home.keys.lanes("echo"), "#v", "junk")
    with pytest.raises(WrongKeyType, match="nothing can be appended"):
        broker.append([message("b", required_capabilities=("gpu",))])


def test_a_moved_entry_keeps_its_record_while_an_index_is_damaged(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("a")])
    (delivery,) = engine("n1.e1").claim()
    home.command("DEL", home.keys.running("echo"))
    home.command("SET", home.keys.running("echo"), "not ours")
    with pytest.raises(WrongKeyType):
        delivery.release()
    home.command("DEL", home.keys.running("echo"))
    assert [each.task_id for each in engine("n1.e2").claim()] == ["a"]
