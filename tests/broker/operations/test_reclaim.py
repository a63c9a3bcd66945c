"""Reclaim: a lost engine is fenced, its tasks wait again, and only guilty tasks are charged."""

import pytest

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.engine.delivery import Delivery
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.reclaim import VERDICT
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo
from dalston_queue.broker.protocol.types import Cause, EngineState, EventKind, Priority, Tier
from tests.broker.conftest import BUDGETS, MakeEngine, events_of, message


def test_a_reclaimed_task_is_claimed_next(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a", priority=Priority.LOW, timeout_ms=9000)])
    engine("dead").claim()
    broker.append([message("b", priority=Priority.HIGH)])
    evidence = ErrorInfo(message="signal 9", cause=Cause.ENGINE_LOST, evidence={"signal": 9})
    taken = broker.reclaim("dead", ["echo"], error=evidence, **BUDGETS)
    assert taken.recovered == ("a",) and not taken.exhausted and not taken.alive
    (claimed,) = engine("next").claim()
    assert (claimed.task_id, claimed.tier, claimed.deliveries, claimed.attempt) == ("a", Tier.RECOVERED, 1, 1)
    (recovered,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_RECOVERED]
    assert (recovered.seq, recovered.deliveries, recovered.tier, recovered.error) == (2, 1, Tier.RECOVERED, evidence)
    assert broker.pending("echo").total == 1


def test_a_zombie_is_fenced_before_anything_else(broker: Broker, engine: MakeEngine) -> None:
    """Reproduced: a zombie's refused settle claimed its own task again in the same call."""
    broker.append([message("a")])
    zombie = engine("zombie")
    (claimed,) = zombie.claim()
    broker.reclaim("zombie", ["echo"], **BUDGETS)
    with pytest.raises(Fenced, match="zombie in queue echo"):
        zombie.exchange([(claimed, Completed())], free=1)
    assert claimed.lost and zombie.held == []
    assert broker.snapshot().queues[0].counters["refused"] == 1
    with pytest.raises(Fenced):
        zombie.renew_all()
    (again,) = engine("next").claim()
    assert again.settle(Completed()) == "ok"


def test_a_fenced_engine_that_opens_again_is_back(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    zombie = engine("zombie")
    zombie.claim()
    broker.reclaim("zombie", ["echo"], **BUDGETS)
    zombie.open()
    assert [c.task_id for c in zombie.claim()] == ["a"]


def test_two_deaths_make_a_suspect_and_three_exhaust_it(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message("poison")])
    tiers = []
    for n in range(3):
        (claimed,) = engine(f"e{n}").claim()
        tiers.append(claimed.tier)
        taken = broker.reclaim(f"e{n}", ["echo"], **BUDGETS)
    assert tiers == [Tier.MEDIUM, Tier.RECOVERED, Tier.SUSPECT]
    assert taken.exhausted == ("poison",) and taken.recovered == ()
    (end,) = [e for e in events_of(reader) if e.kind is EventKind.TASK_EXHAUSTED]
    assert end.deliveries == 3 and end.error is not None and end.error.cause is Cause.ENGINE_LOST
    assert engine("last").claim() == []


def test_the_innocent_are_not_charged(broker: Broker, engine: MakeEngine) -> None:
    """Reproduced: one poison task on an engine of capacity 32 took 31 others to the dead letters in three rounds."""
    broker.append([message(f"t{n}") for n in range(32)])
    engine("e0", capacity=32).claim()
    broker.reclaim("e0", ["echo"], named="t7", **BUDGETS)
    engine("e1", capacity=32).claim()
    broker.reclaim("e1", ["echo"], **BUDGETS)
    records = broker.records("echo", [f"t{n}" for n in range(32)])
    assert {task: r.deliveries for task, r in records.items() if r.deliveries} == {"t7": 1}


def test_a_poison_task_among_others_is_found_and_costs_them_no_delivery(broker: Broker, engine: MakeEngine) -> None:
    """Reproduced: no task was charged, and all were recovered and claimed together again, for ever."""
    broker.append([message(task) for task in ("poison", "a", "b", "c")])
    done: list[str] = []

    def settles_until_it_dies(name: str) -> bool:
        consumer = engine(name, capacity=4)
        while held := consumer.claim():
            if "poison" in [claimed.task_id for claimed in held]:
                return True
            for claimed in held:
                assert claimed.deliveries == 0 and claimed.settle(Completed()) == "ok"
                done.append(claimed.task_id)
        return False

    deaths = 0
    while settles_until_it_dies(f"e{deaths}") and deaths < 20:
        taken = broker.reclaim(f"e{deaths}", ["echo"], **BUDGETS)
        deaths += 1
    assert (deaths, taken.exhausted) == (5, ("poison",)), "twice with others, three times alone"
    assert sorted(done) == ["a", "b", "c"]


def test_one_task_in_each_of_two_queues_did_not_run_alone(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b", queue="sleep")])
    engine("e", queues=("echo", "sleep"), capacity=2).claim()
    assert set(broker.reclaim("e", ["echo", "sleep"], **BUDGETS).recovered) == {"a", "b"}
    assert broker.records("echo", ["a"])["a"].deliveries == 0
    assert broker.records("sleep", ["b"])["b"].deliveries == 0


def test_a_lost_node_has_its_own_larger_budget(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    for n in range(9):
        assert len(engine(f"e{n}", capacity=2).claim()) == 2
        assert broker.reclaim(f"e{n}", ["echo"], Cause.NODE_LOST, **BUDGETS).moved == 2
    record = broker.records("echo", ["a"])["a"]
    assert (record.deliveries, record.losses) == (0, 9)
    engine("e9", capacity=2).claim()
    assert set(broker.reclaim("e9", ["echo"], Cause.NODE_LOST, **BUDGETS).exhausted) == {"a", "b"}


def test_a_lost_nodes_work_can_be_reclaimed_in_parts(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b"), message("c", queue="sleep")])
    engine("e", queues=("echo", "sleep"), capacity=3).claim()
    taken: list[str] = []
    while True:
        part = broker.reclaim("e", ["echo", "sleep"], Cause.NODE_LOST, at_most=1, **BUDGETS)
        taken += part.recovered
        if not part.left:
            break
    assert sorted(taken) == ["a", "b", "c"]
    assert [broker.records(queue, [task])[task].losses for queue, task in [("echo", "a"), ("sleep", "c")]] == [1, 1]
    assert broker.registry.beat_counters() == {}


def test_a_crash_is_never_reclaimed_in_parts(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    engine("e", capacity=2).claim()
    assert broker.reclaim("e", ["echo"], at_most=1, **BUDGETS).moved == 2
    assert broker.records("echo", ["a"])["a"].deliveries == 0, "which of the two is guilty is not known"


def test_an_engine_that_beat_since_it_was_judged_is_left_alone(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine("slow")
    (claimed,) = consumer.claim()
    judged = broker.registry.beat_counters()["slow"]
    broker.registry.beat_engine(EngineBeat(engine_id="slow", state=EngineState.READY, queues=("echo",)))
    assert broker.reclaim("slow", ["echo"], Cause.NODE_LOST, judged=judged.counters, **BUDGETS).alive
    assert claimed.settle(Completed()) == "ok"


def test_a_reclaim_at_the_judged_counter_works_and_can_be_repeated(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    engine("dead").claim()
    judged = broker.registry.beat_counters()["dead"].counters
    assert broker.reclaim("dead", ["echo"], Cause.NODE_LOST, judged=judged, **BUDGETS).recovered == ("a",)
    again = broker.reclaim("dead", ["echo"], Cause.NODE_LOST, judged=judged, **BUDGETS)
    assert again.moved == 0 and not again.alive
    assert broker.records("echo", ["a"])["a"].losses == 1


def test_a_reclaim_that_is_repeated_late_leaves_the_engine_that_opened_again_alone(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a")])
    consumer = engine("dead")
    consumer.claim()
    judged = broker.registry.beat_counters()["dead"].counters
    broker.reclaim("dead", ["echo"], Cause.NODE_LOST, judged=judged, **BUDGETS)
    consumer.open()
    (claimed,) = consumer.claim()
    assert broker.reclaim("dead", ["echo"], Cause.NODE_LOST, judged=judged, **BUDGETS).alive
    assert claimed.settle(Completed()) == "ok"


def test_a_suspect_without_a_delivery_stays_one_however_it_returns_to_its_queue(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a"), message("b")])
    for n in range(2):
        assert len(engine(f"company{n}", capacity=2).claim()) == 2
        broker.reclaim(f"company{n}", ["echo"], **BUDGETS)
    broker.remove("echo", "b")

    def claimed_again(name: str) -> Delivery:
        (claimed,) = engine(name).claim()
        assert (claimed.task_id, claimed.tier, claimed.deliveries) == ("a", Tier.SUSPECT, 0)
        return claimed

    assert claimed_again("drained").release()
    claimed_again("slow")
    assert broker.requeue("echo", "a", 1, ErrorInfo(message="run it elsewhere")) == "returned"
    claimed_again("lost")
    assert broker.reclaim("lost", ["echo"], Cause.NODE_LOST, **BUDGETS).recovered == ("a",)
    claimed_again("last")


def test_scanner_and_engines_reclaim_by_verdicts_only(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    engine("dead").claim()
    assert broker.reclaim("dead", ["echo"], judged={"echo": VERDICT}, **BUDGETS).alive, "it is not judged"
    broker.registry.condemn(broker.registry.beat_counters()["dead"])
    idle = engine("idle")
    assert idle.reclaim() == 1
    assert [c.task_id for c in idle.claim()] == ["a"]
    assert broker.registry.dead("echo") == {}


def test_a_verdict_is_void_after_one_more_beat(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    engine("lapsed").claim()
    broker.registry.condemn(broker.registry.beat_counters()["lapsed"])
    assert list(broker.registry.dead("echo")) == ["lapsed"]
    broker.registry.beat_engine(EngineBeat(engine_id="lapsed", state=EngineState.READY, queues=("echo",)))
    assert broker.registry.dead("echo") == {}
    assert engine("idle").reclaim() == 0


def test_the_dead_engine_leaves_no_consumer_and_no_session(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b", required_capabilities=("gpu",))])
    engine("dead", capabilities=["gpu"], capacity=2).claim()
    broker.reclaim("dead", ["echo"], **BUDGETS)
    stats = broker.snapshot().queues[0]
    assert all(lane.consumers == 0 and lane.pending == 0 for lane in stats.lanes)
    home = broker.home
    assert home.command("EXISTS", home.keys.session("echo", "dead")) == 0
    assert broker.registry.beat_counters() == {}


def test_a_ghost_of_a_dead_engine_is_acknowledged_and_can_be_rebuilt(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    (claimed,) = engine("dead").claim()
    home = broker.home
    home.command("XDEL", claimed.stream, claimed.entry_id)
    assert broker.snapshot().queues[0].lanes[2].consistent is False
    taken = broker.reclaim("dead", ["echo"], **BUDGETS)
    assert taken.lost == (claimed.entry_id,) and taken.moved == 0
    assert broker.snapshot().queues[0].lanes[2].consistent
    assert broker.append([message("a")]) == ["added"]
