"""Claiming: strict tiers, lanes by capability, suspects alone, pause and backlog."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dalston_queue.broker import Broker, Delivery, EventReader
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, TaskMessage
from dalston_queue.broker.protocol.types import EventKind, Priority, Tier
from tests.broker.conftest import MakeEngine, events_of, message
from tests.support import keeps_time, wait_until


def test_an_engine_gets_the_whole_message(broker: Broker, engine: MakeEngine) -> None:
    sent = TaskMessage(
        task_id="a",
        job_id="j",
        queue="echo",
        stage="echo_ch0",
        task_type="echo",
        attempt=3,
        priority=Priority.HIGH,
        required_capabilities=("gpu",),
        parameters={"text": "grün", "n": [1, 2.5, None]},
        inputs={"prepare": {"ok": True}},
        timeout_ms=60_000,
        enqueued_at_ms=1_700_000_000_000,
        trace_id="trace",
    )
    broker.append([sent])
    (claimed,) = engine(capabilities=["gpu"]).claim()
    assert claimed.message == sent
    assert claimed.deadline_ms > 0 and claimed.timeout_ms == 60_000


def test_tiers_are_strict_and_in_order_of_arrival_within(broker: Broker, engine: MakeEngine) -> None:
    for tier in ("low", "medium", "high"):
        broker.append([message(f"{tier}{n}", priority=Priority(tier)) for n in range(2)])
    consumer = engine(capacity=6)
    assert [c.task_id for c in consumer.claim()] == ["high0", "high1", "medium0", "medium1", "low0", "low1"]


@pytest.mark.parametrize("of_high", [(), ("gpu",)])
def test_the_highest_tier_of_all_lanes_comes_first(
    broker: Broker, engine: MakeEngine, of_high: tuple[str, ...]
) -> None:
    """Also by the marks: only the first call, and each 64th, reads every stream."""
    of_low = ("gpu",) if not of_high else ()
    broker.append([message("first"), message("second", required_capabilities=("gpu",))])
    consumer = engine(capabilities=["gpu"], capacity=9)
    assert len(consumer.claim()) == 2
    broker.append([message("low", priority=Priority.LOW, required_capabilities=of_low)])
    broker.append([message("high", priority=Priority.HIGH, required_capabilities=of_high)])
    broker.append([message("medium", required_capabilities=of_low)])
    assert [c.task_id for c in consumer.claim()] == ["high", "medium", "low"]


def test_an_engine_claims_only_what_it_can_run(broker: Broker, engine: MakeEngine) -> None:
    broker.append(
        [
            message("plain"),
            message("gpu", required_capabilities=("gpu",)),
            message("both", required_capabilities=("large", "gpu")),
        ]
    )
    assert {c.task_id for c in engine("cpu", capacity=9).claim()} == {"plain"}
    assert {c.task_id for c in engine("gpu", capabilities=["gpu"], capacity=9).claim()} == {"gpu"}
    assert {c.task_id for c in engine("big", capabilities=["gpu", "large", "fp8"], capacity=9).claim()} == {"both"}


def test_no_capability_set_starves_another(broker: Broker, engine: MakeEngine) -> None:
    for caps in ((), ("a",), ("b",)):
        broker.append([message(f"{caps}{n}", required_capabilities=caps) for n in range(30)])
    consumer = engine(capabilities=["a", "b"])
    seen: list[tuple[str, ...]] = []
    claimed = consumer.claim()
    for _ in range(12):
        seen.append(claimed[0].message.required_capabilities)
        claimed = consumer.exchange([(claimed[0], Completed())]).claimed
    assert all(seen.count(caps) == 4 for caps in ((), ("a",), ("b",))), seen


def test_an_idle_engine_claims_the_first_task_of_a_new_lane_within_a_second(broker: Broker, engine: MakeEngine) -> None:
    """Also at the start of a sleep, which nothing ends early: the engine has no wake key of a lane it doesn't know."""
    lanes = iter(("a", "b", "c", "d"))
    consumer = engine(capabilities=["a", "b", "c", "d"])
    assert consumer.claim() == []

    def first_claim() -> tuple[list[Delivery], float]:
        claimed = wait_until(lambda: consumer.claim(timeout=20.0), what="the task of the new lane")
        return claimed, time.monotonic()

    def once() -> float:
        lane = next(lanes)
        with ThreadPoolExecutor(1) as sleeping:
            found = sleeping.submit(first_claim)
            wait_until(lambda: broker.home.client.info("clients")["blocked_clients"], what="the sleep")
            start = time.monotonic()
            broker.append([message(lane, required_capabilities=(lane,))])
            claimed, at = found.result()
        assert [each.task_id for each in claimed] == [lane]
        consumer.exchange([(claimed[0], Completed())], 0)
        return at - start

    keeps_time(1.0, once)


def test_a_busy_engine_learns_of_a_new_lane_with_its_next_call(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a"), message("b")])
    consumer = engine(capabilities=["gpu"])
    (first,) = consumer.claim()
    broker.append([message("c", required_capabilities=("gpu",), priority=Priority.HIGH)])
    (second,) = consumer.exchange([(first, Completed())]).claimed  # learns of the lane
    (third,) = consumer.exchange([(second, Completed())]).claimed
    assert (second.task_id, third.task_id) == ("b", "c")


def test_no_more_is_claimed_than_there_is_room_for(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"t{n}") for n in range(5)])
    consumer = engine(capacity=3)
    first = consumer.claim(5_000)
    assert len(first) == 3 and consumer.claim(5_000) == []
    assert len(consumer.exchange([(first[0], Completed())], free=5_000).claimed) == 1
    assert len(consumer.held) == 3


def test_a_refused_settlement_makes_no_room_for_another_suspect(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"s{n}", deliveries=2) for n in range(4)])
    late, *others = (engine(max_suspects=2) for _ in range(3))
    (taken,) = late.claim()
    broker.requeue("echo", taken.task_id, 1, ErrorInfo(message="run it elsewhere"))
    assert [len(other.claim()) for other in others] == [1, 1]
    answer = late.exchange([(taken, Completed())])
    assert answer.settled == ["lost"] and answer.claimed == [], "two run already"


def test_a_lane_of_another_type_stops_no_engine(broker: Broker, engine: MakeEngine) -> None:
    home = broker.home
    broker.append([message("a")])
    home.command("SET", home.keys.stream("echo", "", Tier.HIGH), "no stream")
    home.command("HSET", home.keys.counters("echo"), "foo", "bar")
    home.command("HSET", home.keys.lanes("echo"), b"@\xff", "00000")
    consumer = engine()
    assert [claimed.task_id for claimed in consumer.claim()] == ["a"]
    (stats,) = broker.snapshot().queues
    assert (stats.running, stats.counters["appended"], "foo" in stats.counters) == (1, 1, False)
    assert {lane.capabilities for lane in stats.lanes} == {""}
    assert consumer.exchange([(consumer.held[0], Completed())]).settled == ["ok"]
    assert consumer.claim(timeout=0.1) == []
    home.command("DEL", home.keys.stream("echo", "", Tier.HIGH))


def test_a_suspect_runs_alone_on_an_empty_engine(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("suspect", deliveries=2), message("plain")])
    consumer = engine(capacity=4)
    (plain,) = consumer.claim()
    assert plain.task_id == "plain"
    assert consumer.claim() == [], "the engine is not empty"
    (suspect,) = consumer.exchange([(plain, Completed())]).claimed
    assert suspect.tier is Tier.SUSPECT
    broker.append([message("later")])
    assert consumer.claim() == [], "nothing runs beside a suspect"
    assert [c.task_id for c in consumer.exchange([(suspect, Completed())]).claimed] == ["later"]


def test_suspects_run_few_at_a_time(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"s{n}", deliveries=2) for n in range(5)])
    engines = [engine(max_suspects=2) for _ in range(4)]
    running = [c for consumer in engines for c in consumer.claim()]
    assert len(running) == 2
    running[0].settle(Completed())
    assert sum(len(consumer.claim()) for consumer in engines) == 1


def test_nothing_is_claimed_from_a_paused_queue(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    consumer = engine()
    broker.pause("echo")
    assert consumer.claim() == []
    assert broker.snapshot().queues[0].paused
    broker.resume("echo")
    assert consumer.wait(1), "resume wakes"
    assert len(consumer.claim()) == 1


def test_claiming_stops_while_the_event_backlog_is_too_long(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message(f"t{n}") for n in range(5)])
    consumer = engine(capacity=5, max_backlog=1)
    first = consumer.claim(1) + consumer.claim(1)
    assert len(first) == 2 and consumer.claim() == []
    assert first[0].settle(Completed()) == "ok", "settling goes on"
    events_of(reader)
    assert len(consumer.claim(1)) == 1


def test_an_engine_serves_several_queues_in_turn(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"{queue}{n}", queue=queue) for queue in ("echo", "sleep", "fail") for n in range(10)])
    consumer = engine(queues=("echo", "sleep", "fail"))
    order = []
    claimed = consumer.claim()
    for _ in range(9):
        order.append(claimed[0].message.queue)
        claimed = consumer.exchange([(claimed[0], Completed())]).claimed
        assert len(claimed) == 1, "one slot, one task, whatever the number of queues"
    assert {order.count(queue) for queue in ("echo", "sleep", "fail")} == {3}


def test_one_append_wakes_one_of_a_hundred_idle_engines(broker: Broker) -> None:
    """XREAD BLOCK would wake all of them."""
    home = broker.home
    key = home.keys.wake("echo")
    sleepers = [home.connection(key) for _ in range(100)]
    for sleeper in sleepers:
        sleeper.send_command("BLPOP", key, 60)
    wait_until(lambda: home.client.info("clients")["blocked_clients"] >= 100, what="100 sleeping engines")
    broker.append([message("a")])
    wait_until(lambda: any(s.can_read(0) for s in sleepers), what="one of them awake")
    assert sum(s.can_read(0) for s in sleepers) == 1
    for sleeper in sleepers:
        sleeper.disconnect()


def test_tokens_of_tasks_that_busy_engines_took_are_dropped(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"t{n}") for n in range(300)])
    home = broker.home
    assert home.command("LLEN", home.keys.wake("echo")) == 128, "capped"
    consumer = engine(capacity=256)
    consumer.exchange([(c, Completed()) for c in consumer.claim()])
    consumer.exchange([(c, Completed()) for c in consumer.held])
    assert consumer.claim() == []
    assert home.command("LLEN", home.keys.wake("echo")) == 0


def test_tasks_that_start_together_have_an_event_each(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message(f"t{n}") for n in range(3)])
    consumer = engine("e", capacity=3)
    claimed = consumer.claim()
    consumer.exchange([(c, Completed({"n": n})) for n, c in enumerate(claimed)])
    events = events_of(reader)
    assert [(e.kind, e.task_id, e.seq) for e in events] == [
        *((EventKind.TASK_STARTED, f"t{n}", 1) for n in range(3)),
        *((EventKind.TASK_COMPLETED, f"t{n}", 2) for n in range(3)),
    ]
    assert [e.result for e in events[3:]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert {(e.engine_id, e.attempt) for e in events} == {("e", 1)}


def test_suspects_of_lanes_that_an_engine_cannot_read_count_too(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"g{n}", deliveries=2, required_capabilities=("gpu",)) for n in range(2)])
    running = [claimed for _ in range(2) for claimed in engine(capabilities=["gpu"], max_suspects=2).claim()]
    assert len(running) == 2
    broker.append([message("plain", deliveries=2)])
    unable = engine(max_suspects=2)
    assert unable.claim() == [], "few at a time, in the whole queue"
    running[0].settle(Completed())
    assert [claimed.task_id for claimed in unable.claim()] == ["plain"]
