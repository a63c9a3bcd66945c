"""Dead engines: which are judged dead, what their tasks are charged with, and that a zombie's result is refused."""

import re
import time

import pytest
from pytest_django import Settings

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import EngineState, NodeState, Role, Settled
from dalston_queue.models import DeadLetter, Task
from dalston_queue.orchestrator.duties.scanner import scan
from dalston_queue.orchestrator.leadership import Leadership
from dalston_queue.orchestrator.recovery import Recovery
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.support import wait_until

NODE = "node"


def lost_engine(broker: Broker, name: str = "node.demo.0.lost", capacity: int = 1) -> Consumer:
    """An engine that claims and never beats again."""
    consumer = Consumer(broker, name, ["echo"], capacity=capacity)
    consumer.open()
    beat(broker, name)
    return consumer


def beat(broker: Broker, *engines: str) -> None:
    beats = [EngineBeat(engine_id=name, state=EngineState.READY, queues=("echo",)) for name in engines]
    broker.registry.beat_node(NODE, NodeState.ACTIVE, beats)


@pytest.fixture
def recovery(broker: Broker, steps: Steps) -> Recovery:
    return Recovery(broker, Leadership(Role.ORCHESTRATOR, "test"))


def judge(broker: Broker, recovery: Recovery, *alive: str, node: bool = True) -> int:
    """Polls over 25 s in which only these engines, and the node if it lives, beat; returns the reclaimed tasks."""
    taken = 0
    for now in range(0, 30, 5):
        if node or alive:
            beat(broker, *alive)
        taken += recovery.poll(float(now))
    return taken


def forget(broker: Broker, *engines: str) -> None:
    broker.registry.forget(engines, [NODE])
    broker.reset_queue("echo")


def test_a_dead_engine_on_a_live_node_is_charged_as_a_crash(broker: Broker, steps: Steps, recovery: Recovery) -> None:
    task = make.single()
    steps.poll()
    dead = lost_engine(broker)
    [claimed] = dead.claim()
    assert judge(broker, recovery) == 1
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.attempt, task.deliveries, task.node_losses) == ("queued", 1, 1, 0)
    assert [info.state for info in broker.registry.engines()] == [EngineState.DEAD]
    with pytest.raises(Fenced):
        claimed.settle(Completed(1))
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.deliveries) == ("completed", 1)
    forget(broker, dead.engine_id)


def test_a_lost_node_is_charged_apart(broker: Broker, steps: Steps, recovery: Recovery) -> None:
    task = make.single()
    steps.poll()
    dead = lost_engine(broker)
    dead.claim()
    assert judge(broker, recovery, node=False) == 1
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.deliveries, task.node_losses) == ("queued", 0, 1)
    assert [info.state for info in broker.registry.nodes()] == [NodeState.DEAD]
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    forget(broker, dead.engine_id)


def test_the_tasks_of_a_lost_node_are_reclaimed_one_by_one(broker: Broker, steps: Steps, recovery: Recovery) -> None:
    for _ in range(4):
        make.single()
    steps.poll()
    first, second = lost_engine(broker, "node.demo.0.a", 2), lost_engine(broker, "node.demo.1.b", 2)
    beat(broker, first.engine_id, second.engine_id)
    assert len(first.claim() + second.claim()) == 4
    assert judge(broker, recovery, node=False) == 2, "one at each of the two polls after its death"
    assert broker.snapshot().queues[0].running == 2
    assert [recovery.reclaim_next(), recovery.reclaim_next()] == [1, 1]
    assert recovery.reclaim_next() == 0
    steps.drain()
    assert sorted(Task.objects.values_list("status", "node_losses")) == [("queued", 1)] * 4
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    forget(broker, first.engine_id, second.engine_id)


def test_an_engine_that_beats_again_keeps_what_was_not_reclaimed_yet(
    broker: Broker, steps: Steps, recovery: Recovery
) -> None:
    for _ in range(3):
        make.single()
    steps.poll()
    dead = lost_engine(broker, capacity=3)
    held = {delivery.task_id for delivery in dead.claim()}
    taken = sum(recovery.poll(float(now)) for now in range(0, 25, 5))
    assert taken == 1
    beat(broker, dead.engine_id)
    assert [recovery.reclaim_next(), recovery.poll(25.0), recovery.reclaim_next()] == [0, 0, 0]
    dead.open()
    again = {delivery.task_id for delivery in dead.renew_all().missing}
    assert len(again) == 2
    assert again < held
    dead.close()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    forget(broker, dead.engine_id)


def test_the_stagger_lies_between_two_tasks(broker: Broker, steps: Steps, settings: Settings) -> None:
    settings.DALSTON_DEAD_AFTER_S, settings.DALSTON_RECOVERY_INTERVAL_S = 0.2, 0.1
    settings.DALSTON_RECLAIM_STAGGER_MS = 150
    recovery = Recovery(broker, Leadership(Role.ORCHESTRATOR, "test"))
    for _ in range(4):
        make.single()
    steps.poll()
    dead = lost_engine(broker, capacity=4)
    dead.claim()
    seen: list[tuple[float, int]] = []

    def wait(seconds: float) -> bool:
        reclaimed = broker.snapshot().queues[0].counters.get("recovered", 0)
        seen.append((seconds, reclaimed))
        time.sleep(seconds)
        return reclaimed == 4

    recovery.run(wait)
    assert [pause for pause, reclaimed in seen if reclaimed in {1, 2, 3}] == [0.15] * 3
    assert [reclaimed for _, reclaimed in seen if reclaimed] == [1, 2, 3, 4]
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    forget(broker, dead.engine_id)


def test_an_engine_that_beats_keeps_its_tasks_however_long_they_take(
    broker: Broker, steps: Steps, recovery: Recovery
) -> None:
    make.single()
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert judge(broker, recovery, consumer.engine_id) == 0
        assert claimed.settle(Completed(1)) is Settled.ACCEPTED
        steps.drain()
    forget(broker, consumer.engine_id)


def test_a_task_that_kills_three_engines_is_a_dead_letter(broker: Broker, steps: Steps, recovery: Recovery) -> None:
    task = make.single()
    steps.poll()
    names = [f"node.demo.0.boot{number}" for number in range(3)]
    for name in names:
        dead = lost_engine(broker, name)
        assert len(dead.claim()) == 1
        steps.drain()
        judge(broker, recovery)
        steps.drain()
    task.refresh_from_db()
    assert (task.status, task.error_cause, task.deliveries) == ("dead_letter", "engine_lost", 3)
    assert DeadLetter.objects.get(task=task).deliveries == 3
    forget(broker, *names)


def test_the_scanner_finishes_what_a_judge_began_before_it_died(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    dead = lost_engine(broker)
    dead.claim()
    broker.registry.condemn(broker.registry.beat_counters()[dead.engine_id])
    report = scan()
    assert report.found["recovered"] == 1
    steps.drain()
    task.refresh_from_db()
    assert task.status == "queued"
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    forget(broker, dead.engine_id)


def test_the_scanner_leaves_an_idle_owner_alone_that_was_not_judged(broker: Broker, steps: Steps) -> None:
    make.single()
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert scan().repaired == 0
        assert claimed.settle(Completed(1)) is Settled.ACCEPTED
        steps.drain()


def test_the_scanner_ends_what_is_past_its_deadline_and_its_grace(
    broker: Broker, steps: Steps, settings: Settings
) -> None:
    task = make.single(timeout_seconds=1)
    steps.poll()
    settings.DALSTON_DEADLINE_GRACE_S = -2.0  # as if the deadline of 1 s and more had passed
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert scan().found["expired"] == 1
        assert claimed.settle(Completed(1)) is Settled.LOST
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.attempt, task.error_cause, task.timeout_seconds) == ("scheduled", 2, "timeout", 2)


def test_the_scanner_ends_what_was_not_renewed_for_the_absolute_timeout_or_its_own_if_longer(
    broker: Broker, steps: Steps, settings: Settings
) -> None:
    task = make.single(timeout_seconds=1)
    steps.poll()
    settings.DALSTON_ABSOLUTE_TIMEOUT_MS = 100
    with engine(broker) as consumer:
        started = time.monotonic()
        [claimed] = consumer.claim()
        wait_until(lambda: scan().found["expired"], what="the scanner expires the task")
        assert time.monotonic() - started >= 1
        assert claimed.settle(Completed(1)) is Settled.LOST
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.error_cause) == ("scheduled", "timeout")
    assert re.fullmatch(r"its engine did not renew it for [1-9]\d* s", task.error)
