"""The registry: heartbeats of nodes and engines, and the judge's verdicts."""

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState
from tests.broker.conftest import Counted, MakeEngine


def beat(name: str, state: EngineState = EngineState.READY, **values: object) -> EngineBeat:
    return EngineBeat(engine_id=name, state=state, queues=("echo",), **values)  # type: ignore[arg-type]


def test_a_node_beats_for_all_its_engines_in_one_round_trip(broker: Broker, counted: Counted) -> None:
    node, round_trips = counted
    engines = [beat(f"n1.demo.{n}.b", info={"pid": n, "cpu": 1.5}, capabilities=("gpu",)) for n in range(20)]
    node.registry.beat_node("n1", NodeState.ACTIVE, engines, {"gpus": 2})  # the first may load scripts
    assert round_trips(lambda: node.registry.beat_node("n1", NodeState.DRAINING, engines, {"gpus": 2})) == 1
    (shown,) = broker.registry.nodes()
    assert (shown.node_id, shown.state, shown.beat, shown.info) == ("n1", NodeState.DRAINING, 2, {"gpus": 2})
    found = broker.registry.engines()
    assert len(found) == 20 and {e.node_id for e in found} == {"n1"}
    assert found[0].info["cpu"] == 1.5 and found[0].capabilities == ("gpu",) and found[0].beat == 2
    assert broker.registry.beat_counters()["n1.demo.0.b"].counters == {"echo": (2,)}


def test_a_report_that_can_not_be_read_hides_no_other_engine(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat("e1"), beat("e2")])
    broker.registry.beat_node("n2", NodeState.ACTIVE, [])
    home = broker.home
    home.command("HSET", home.keys.engine("e1"), "report", "junk")
    home.command("HSET", home.keys.node("n2"), "state", "asleep")
    assert [engine.engine_id for engine in broker.registry.engines()] == ["e2"]
    assert [node.node_id for node in broker.registry.nodes()] == ["n1"]
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat("e1"), beat("e2")])
    broker.registry.beat_node("n2", NodeState.ACTIVE, [])
    assert (len(broker.registry.engines()), len(broker.registry.nodes())) == (2, 2), "the next beat repairs it"


def test_a_lapsed_engine_that_beats_again_is_back(broker: Broker) -> None:
    registry = broker.registry
    registry.beat_node("n1", NodeState.ACTIVE, [beat("e1")])
    registry.condemn(registry.beat_counters()["e1"], Cause.NODE_LOST)
    registry.condemn_node(registry.nodes()[0])
    assert registry.engines()[0].state is EngineState.DEAD and registry.nodes()[0].state is NodeState.DEAD
    assert registry.dead("echo") == {"e1": Cause.NODE_LOST}
    registry.beat_node("n1", NodeState.ACTIVE, [beat("e1", EngineState.UNHEALTHY)])
    assert registry.engines()[0].state is EngineState.UNHEALTHY and registry.nodes()[0].state is NodeState.ACTIVE
    assert registry.dead("echo") == {}


def test_a_beat_after_the_registry_was_flushed_registers_again(broker: Broker) -> None:
    broker.registry.beat_engine(beat("e1"))
    home = broker.home
    for key in (home.keys.engine("e1"), home.keys.engines(), home.keys.beats("echo")):
        home.command("DEL", key)
    assert broker.registry.engines() == []
    broker.registry.beat_engine(beat("e1"))
    assert [e.engine_id for e in broker.registry.engines()] == ["e1"]


def test_an_engine_that_died_before_its_first_beat_can_be_judged(broker: Broker, engine: MakeEngine) -> None:
    engine("e1")
    broker.registry.beat_engine(beat("other"))
    assert broker.registry.beat_counters()["e1"].counters["echo"] > (0,)


def test_an_index_entry_without_its_hash_is_dropped(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat("e1")])
    home = broker.home
    assert 0 < home.command("PTTL", home.keys.engine("e1")) <= 24 * 3600 * 1000
    home.command("DEL", home.keys.engine("e1"))
    assert broker.registry.engines() == []
    assert home.command("SCARD", home.keys.engines()) == 0


def test_forgetting_removes_engine_and_node(broker: Broker) -> None:
    broker.registry.beat_node("n1", NodeState.ACTIVE, [beat("e1"), beat("e2")])
    broker.registry.forget(["e1"], ["n1"])
    assert [e.engine_id for e in broker.registry.engines()] == ["e2"] and broker.registry.nodes() == []


def test_condemning_a_vanished_engine_does_not_make_half_a_record(broker: Broker) -> None:
    broker.registry.beat_engine(beat("e1"))
    beats = broker.registry.beat_counters()["e1"]
    broker.registry.forget(["e1"])
    broker.registry.condemn(beats)
    assert broker.registry.engines() == []
