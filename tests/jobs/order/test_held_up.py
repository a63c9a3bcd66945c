"""What can't run now holds nothing up: entries of lower priorities, of paused queues and of lanes without an engine
neither use up a limit nor count against their project's share."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.jobs.operator import pause
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, Task
from tests.jobs import make
from tests.jobs.make import NOW
from tests.jobs.together import at_once
from tests.orchestrator.support import Steps, engine, run_to_the_end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]
LATER = NOW + timedelta(seconds=1)


def ready(count: int, queue: str = "echo", *, of: str = "tests", **wanted: Any) -> None:
    for _ in range(count):
        make.claim(make.single(queue, of=of, **wanted).job)


def queued(field: str = "queue") -> dict[str, int]:
    return dict(Counter(Task.objects.filter(status="queued").values_list(field, flat=True)))


@pytest.fixture
def serving(broker: Broker) -> Iterator[None]:
    """An engine that serves echo and other, without capabilities."""
    beat = EngineBeat(engine_id="lone.demo.0.boot", state=EngineState.READY, queues=("echo", "other"), capacity=1)
    broker.registry.beat_engine(beat)
    yield
    broker.registry.forget([beat.engine_id])


@pytest.mark.usefixtures("serving")
def test_high_priority_takes_what_a_limit_allows_from_low_entries(broker: Broker, steps: Steps) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=3)
    ready(5, priority="low")
    refill(None, NOW)
    assert queued("tier") == {"low": 3}
    ready(2, priority="high")
    refill(None, LATER)
    assert queued("tier") == {"high": 2, "low": 1}
    assert broker.snapshot(["echo"]).queues[0].waiting == 3
    assert set(depths()) == set(counted())
    with engine(broker, "echo", capacity=3) as consumer:
        assert run_to_the_end(steps, consumer) == 7
    assert set(Task.objects.values_list("status", "attempt")) == {("completed", 1)}


@pytest.mark.usefixtures("serving")
def test_a_paused_queue_uses_up_no_limit_of_its_project(broker: Broker) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=3)
    pause.pause("other", NOW, actor="ada")
    ready(5, "other")
    refill(None, NOW)
    assert queued() == {"other": 3}
    ready(2)
    refill(["echo"], LATER)
    assert queued() == {"other": 1, "echo": 2}
    refill(None, LATER)
    assert queued() == {"other": 1, "echo": 2}


@pytest.mark.usefixtures("serving")
def test_a_lane_without_an_engine_uses_up_no_limit_of_its_queue(broker: Broker) -> None:
    Limit.objects.create(queue="echo", max_in_flight=2)
    ready(5, required_capabilities=("gpu",), priority="high")
    refill(None, NOW)
    assert queued("lane") == {"echo@gpu": 2}
    ready(5)
    refill(None, LATER)
    assert queued("lane") == {"echo": 2}


@pytest.mark.usefixtures("serving")
def test_nothing_is_withdrawn_for_a_task_that_another_limit_holds(broker: Broker) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=3)
    Limit.objects.create(queue="other", max_in_flight=0)
    ready(5, priority="low")
    refill(None, NOW)
    ready(2, "other", priority="high")
    refill(None, LATER)
    assert queued("tier") == {"low": 3}
    assert not Task.objects.filter(events__transition="withdraw").exists()


@pytest.mark.usefixtures("serving")
def test_what_an_engine_has_claimed_meanwhile_stays_and_the_limit_holds(broker: Broker) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=3)
    ready(3, priority="low")
    refill(None, NOW)
    with engine(broker, "echo", capacity=2) as consumer:
        assert len(consumer.claim()) == 2  # its events are not applied yet
        ready(3, priority="high")
        refill(None, LATER)
        assert queued("tier") == {"low": 2, "high": 1}
        consumer.release(consumer.held)


@pytest.mark.usefixtures("serving")
def test_refills_that_withdraw_at_once_keep_the_limits_and_lose_nothing(broker: Broker, steps: Steps) -> None:
    """In real threads, of two queues and all priorities, while an engine claims."""
    Limit.objects.create(project=make.project(), max_in_flight=4)
    Limit.objects.create(queue="other", starts_per_minute=60)
    for priority in ("low", "medium", "high"):
        ready(6, priority=priority)
        ready(3, "other", priority=priority)
        with engine(broker, "echo", "other", name=f"node.demo.0.{priority}", capacity=1) as consumer:
            at_once(*[lambda: refill(["echo"], NOW), lambda: refill(["other"], NOW)] * 2, lambda: len(consumer.claim()))
            assert sum(queued().values()) <= 4
            steps.drain()
            consumer.release(consumer.held)
        steps.drain()
    assert set(depths()) == set(counted())
    Limit.objects.all().delete()
    with engine(broker, "echo", "other", name="node.demo.0.last") as consumer:
        run_to_the_end(steps, consumer)
    assert set(Task.objects.values_list("status", "attempt")) == {("completed", 1)}


@pytest.mark.usefixtures("serving")
def test_a_project_with_entries_that_no_engine_can_run_has_its_share(broker: Broker, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 8
    ready(8, of="a", required_capabilities=("gpu",))
    refill(None, NOW)
    ready(8, of="b")
    ready(8, of="a")
    refill(None, LATER)
    in_lane = Task.objects.filter(status="queued", lane="echo").values_list("project__name", flat=True)
    assert Counter(in_lane) == {"a": 4, "b": 4}


@pytest.mark.usefixtures("serving")
def test_a_project_with_low_entries_has_its_share_of_high(broker: Broker, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 8
    ready(8, of="a", priority="low")
    refill(None, NOW)
    ready(8, of="b", priority="high")
    ready(8, of="a", priority="high")
    refill(None, LATER)
    in_high = Task.objects.filter(status="queued", tier="high").values_list("project__name", flat=True)
    assert Counter(in_high) == {"a": 4, "b": 4}
