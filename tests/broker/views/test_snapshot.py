"""Snapshots: exact numbers of every lane, in one round trip."""

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.operations.lanes import retire_empty
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import EngineState, Priority, Tier
from dalston_queue.broker.views.snapshot import Snapshot, rates
from tests.broker.conftest import Counted, MakeEngine, message
from tests.support import wait_until

MINUTE = 60_000


def test_every_lane_has_its_numbers(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message(f"m{n}") for n in range(4)])
    broker.append([message(f"g{n}", priority=Priority.HIGH, required_capabilities=("gpu",)) for n in range(2)])
    engine(capacity=3).claim()
    (queue,) = broker.snapshot().queues
    lanes = {(lane.capabilities, lane.tier): lane for lane in queue.lanes}
    assert len(lanes) == 10, "two capability sets, five tiers"
    plain, gpu = lanes["", Tier.MEDIUM], lanes["gpu", Tier.HIGH]
    assert (plain.length, plain.pending, plain.lag, plain.consumers, plain.added, plain.removed) == (4, 3, 1, 1, 4, 0)
    assert (gpu.length, gpu.pending, gpu.lag, gpu.consumers) == (2, 0, 2, 0)
    assert (queue.waiting, queue.running, queue.events_backlog) == (3, 3, 1)
    assert queue.counters == {"appended": 6}


def test_a_snapshot_is_one_round_trip_and_sees_at_once_what_is_new(broker: Broker, counted: Counted) -> None:
    viewer, round_trips = counted
    broker.append([message("a"), message("g", required_capabilities=("gpu",)), message("s", queue="sleep")])
    broker.registry.beat_engine(EngineBeat(engine_id="e", state=EngineState.READY, queues=("unused",)))
    viewer.snapshot()
    broker.append([message("b")])
    seen: list[Snapshot] = []
    assert round_trips(lambda: seen.append(viewer.snapshot())) == 1
    assert shape(seen[-1]) == {"echo": {"": 2, "gpu": 1}, "sleep": {"": 1}, "unused": {}}
    assert round_trips(lambda: seen.append(viewer.snapshot(["sleep"]))) == 1
    assert shape(seen[-1]) == {"sleep": {"": 1}}

    broker.append(
        [message("f", required_capabilities=("fast",)), message("n", queue="new"), message("u", queue="unused")]
    )
    assert round_trips(lambda: seen.append(viewer.snapshot())) == 2
    everything = {"echo": {"": 2, "fast": 1, "gpu": 1}, "new": {"": 1}, "sleep": {"": 1}, "unused": {"": 1}}
    assert shape(seen[-1]) == everything
    assert round_trips(lambda: seen.append(viewer.snapshot())) == 1
    assert shape(seen[-1]) == everything

    broker.reset_queue("sleep")
    broker.remove("echo", "f")
    assert retire_empty(broker.home, "echo") == ["fast"]
    assert round_trips(lambda: seen.append(viewer.snapshot())) == 1
    assert shape(seen[-1]) == {"echo": {"": 2, "gpu": 1}, "new": {"": 1}, "unused": {"": 1}}


def shape(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """How many wait, by queue and capability set."""
    found: dict[str, dict[str, int]] = {}
    for queue in snapshot.queues:
        lanes = found.setdefault(queue.queue, {})
        for lane in queue.lanes:
            lanes[lane.capabilities] = lanes.get(lane.capabilities, 0) + lane.lag
    return found


def test_lag_is_exact_where_redis_says_null(broker: Broker, engine: MakeEngine) -> None:
    """XINFO's lag is NULL after a delete in the middle; never show that as 0."""
    broker.append([message(f"t{n}") for n in range(10)])
    engine(capacity=2).claim()
    broker.remove("echo", "t5")
    home = broker.home
    (group,) = home.client.xinfo_groups(home.keys.stream("echo"))
    assert group["lag"] is None
    assert broker.snapshot().queues[0].waiting == 7


def test_the_oldest_waiting_age_counts_from_the_first_enqueueing_and_leaves_out_what_runs(
    broker: Broker, engine: MakeEngine
) -> None:
    now = broker.home.now_ms()
    broker.append([message("old", enqueued_at_ms=now - 90_000), message("newer", enqueued_at_ms=now - 30_000)])
    age = broker.snapshot().queues[0].oldest_age_ms
    assert age is not None and 90_000 <= age < 95_000
    consumer = engine()
    consumer.claim()
    age = broker.snapshot().queues[0].oldest_age_ms
    assert age is not None and 30_000 <= age < 35_000
    consumer.exchange([(consumer.held[0], Completed())])
    assert broker.snapshot().queues[0].oldest_age_ms is None


def test_the_oldest_age_of_a_queue_is_that_of_the_oldest_first_entry_of_its_streams(broker: Broker) -> None:
    now = broker.home.now_ms()
    broker.append([message("first", enqueued_at_ms=now - 11 * MINUTE), message("second", enqueued_at_ms=now)])
    broker.append([message("gpu", enqueued_at_ms=now - 15 * MINUTE, required_capabilities=("gpu",))])
    (queue,) = broker.snapshot().queues
    ages = {lane.capabilities: lane.oldest_age_ms for lane in queue.lanes if lane.tier is Tier.MEDIUM}
    assert {name: (age or 0) // MINUTE for name, age in ages.items()} == {"": 11, "gpu": 15}
    assert queue.oldest_age_ms == ages["gpu"]


def test_a_lane_with_ghosts_is_inconsistent_until_they_are_acknowledged(broker: Broker, engine: MakeEngine) -> None:
    """MAXLEN or XDEL by another program leaves ghosts in the PEL."""
    broker.append([message(f"t{n}") for n in range(6)])
    engine(capacity=4).claim()
    home = broker.home
    home.command("XTRIM", home.keys.stream("echo"), "MAXLEN", 0)
    lane = broker.snapshot().queues[0].lanes[2]
    assert (lane.lag, lane.consistent) == (-4, False)
    assert broker.acknowledge_ghosts("echo") == 4
    lane = broker.snapshot().queues[0].lanes[2]
    assert (lane.lag, lane.consistent) == (0, True)
    assert broker.append([message(f"t{n}") for n in range(6)]) == ["added"] * 6


def test_rates_come_from_two_snapshots(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("before")])
    first = broker.snapshot()
    broker.append([message(f"t{n}") for n in range(8)])
    consumer = engine(capacity=4)
    consumer.exchange([(c, Completed()) for c in consumer.claim()], free=0)
    wait_until(lambda: broker.home.now_ms() > first.at_ms, what="the clock to move")
    second = broker.snapshot()
    seconds = (second.at_ms - first.at_ms) / 1000
    found = rates(first, second)
    (medium,) = (lane for lane in second.queues[0].lanes if lane.tier is Tier.MEDIUM)
    for name in ("echo", medium.name):
        assert (round(found[name].in_per_s * seconds), round(found[name].out_per_s * seconds)) == (8, 4)
    assert rates(second, second) == {}
