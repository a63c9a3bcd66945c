"""Somebody else writes into our keys: what they hit does not work, or is repaired, and everything else goes on."""

from dalston_queue.broker import Broker
from dalston_queue.broker.registry import EngineBeat
from dalston_queue.broker.types import Cause, EngineState, NodeState
from tests.broker.conftest import BUDGETS, MakeEngine, message


def beat(broker: Broker, *engines: str) -> None:
    said = [EngineBeat(engine_id=name, state=EngineState.READY, queues=("echo",)) for name in engines]
    broker.registry.beat_node("n1", NodeState.ACTIVE, said)


def test_a_beat_counter_that_is_no_number_is_repaired_by_the_next_beat_and_hides_nobody(broker: Broker) -> None:
    beat(broker, "e1", "e2")
    home = broker.topology.home
    home.command("HSET", home.keys.beats("echo"), "e1", "junk", b"\xff", "1")
    home.command("HSET", home.keys.engine("e1"), "beat", "junk")
    assert {name: pulse.counters for name, pulse in broker.registry.pulses().items()} == {
        "e1": {"echo": (0,)},
        "e2": {"echo": (1,)},
    }
    beat(broker, "e1", "e2")
    repaired = broker.registry.pulses()
    assert repaired["e1"].counters["echo"] > (1_000_000_000_000,), "from the clock: no counter comes back"
    assert repaired["e2"].counters == {"echo": (2,)}
    assert [engine.engine_id for engine in broker.registry.engines()] == ["e1", "e2"]


def test_an_engine_whose_beat_counter_is_no_number_can_be_opened_judged_and_taken_back(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a")])
    home = broker.topology.home
    home.command("HSET", home.keys.beats("echo"), "e1", "junk")
    engine("e1").claim()
    home.command("HSET", home.keys.beats("echo"), "e1", "junk")
    pulse = broker.registry.pulses()["e1"]
    broker.registry.condemn(pulse)
    taken = broker.take_back("e1", pulse.counters, Cause.NODE_LOST, judged=pulse.counters, **BUDGETS)
    assert taken.recovered == ("a",)


def test_a_verdict_that_is_none_condemns_nobody(broker: Broker, engine: MakeEngine) -> None:
    consumer, other = engine("e1"), engine("e2")
    pulses = broker.registry.pulses()
    broker.registry.condemn(pulses["e1"], Cause.NODE_LOST)
    home = broker.topology.home
    (counter,) = pulses["e2"].counters["echo"]
    home.command("HSET", home.keys.verdicts("echo"), "e2", f"{counter}:nonsense", b"\xff", "1:node_lost")
    home.command("HSET", home.keys.beats("echo"), b"\xff", "1")
    assert broker.registry.dead("echo") == {"e1": Cause.NODE_LOST}
    assert other.recover() == 0 and consumer.held == []


def test_ids_that_nobody_can_have_stop_neither_ageing_nor_a_look(broker: Broker, engine: MakeEngine) -> None:
    home = broker.topology.home
    broker.append([message("a", enqueued_at_ms=1000)])
    home.command("ZADD", home.keys.ageing("echo"), 1, b"\xff", 2, "nobody")
    record = home.command("HGET", home.keys.tasks("echo"), "a")
    home.command("HSET", home.keys.tasks("echo"), b"\xff", record)
    assert [event.task_id for event in broker.promote("echo")] == ["a"]
    assert home.command("ZCARD", home.keys.ageing("echo")) == 0
    assert [list(page) for page in broker.scan_records("echo")] == [["a"]]
    engine().claim()
    home.command("ZADD", home.keys.running("echo"), 1, b"\xff")
    assert [entry.task_id for entry in broker.pending("echo").entries] == ["\ufffd", "a"]
