"""Depth: the sum of what each statement has written is what a count of all tasks finds, whatever moved them."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, Priority
from dalston_queue.jobs.operator.cancel import cancel_task
from dalston_queue.jobs.operator.replay import replay
from dalston_queue.jobs.operator.task import dead_letter, requeue_task
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.ageing import promote_aged
from dalston_queue.jobs.order.depth import LaneDepth, compact, counted, depths
from dalston_queue.jobs.queries.lanes import read_lanes
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import DeadLetter, Depth, Task, TaskEvent
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.broker.conftest import BUDGETS
from tests.jobs import make
from tests.jobs.together import at_once
from tests.orchestrator.support import Steps, engine, run_to_the_end, work

pytestmark = pytest.mark.keeps_keys


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    settings.DALSTON_WINDOW = 3


def exact() -> dict[str, tuple[int, int, int]]:
    """What is READY, QUEUED and RUNNING by tier; a count finds the same."""
    found = depths()
    assert set(found) == set(counted())
    return {each.tier: (each.ready, each.queued, each.running) for each in found}


def failed(cause: Cause, claimed: Delivery) -> Outcome:
    return Failed(ErrorInfo(message=claimed.task_id, type="ValueError", cause=cause))


def singles(count: int, **wanted: Any) -> list[Task]:
    return [make.single(**wanted) for _ in range(count)]


def of(status: str) -> Iterator[Task]:
    return Task.objects.filter(status=status).order_by("first_enqueued_at", "id").iterator()


def transitions() -> set[str]:
    return set(TaskEvent.objects.values_list("transition", flat=True))


def test_it_is_exact_from_submission_to_the_end(broker: Broker, steps: Steps) -> None:
    make.dag(a="", b="a")
    later = make.single(scheduled_at=timezone.now() + timedelta(hours=1))
    singles(4)
    assert exact() == {}, "pending tasks are in no lane"
    steps.poll()
    assert exact() == {"medium": (2, 3, 0)}
    with engine(broker, capacity=2) as consumer:
        first, second = consumer.claim()
        assert exact() == {"medium": (2, 3, 0)}, "what Redis knows is not applied yet"
        steps.drain()
        assert exact() == {"medium": (0, 3, 2)}, "the window is full again"
        consumer.exchange([(first, Completed()), (second, failed(Cause.ERROR, second))], free=0)
        steps.drain()
        assert sum(exact()["medium"]) == 4, "one is over, one waits for its retry, and one became READY"
    assert {"defer", "retry"} <= transitions()
    Task.objects.filter(status="scheduled").update(scheduled_at=timezone.now())
    steps.poll()
    later.refresh_from_db()
    assert later.status in ("ready", "queued")
    exact()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    assert exact() == {}


def test_it_is_exact_when_engines_die_and_a_task_becomes_a_suspect(broker: Broker, steps: Steps) -> None:
    singles(4)
    steps.poll()
    for number in range(3):
        with engine(broker, name=f"node.demo.{number}.boot", capacity=1) as consumer:
            consumer.claim()
            steps.drain()
            exact()
            broker.reclaim(consumer.engine_id, ["echo"], Cause.ENGINE_LOST, **BUDGETS)
        steps.drain()
        exact()
        with engine(broker, name=f"node.demo.{number}.next", capacity=1) as consumer:
            consumer.claim()
            steps.drain()
            consumer.release()
        steps.drain()
        exact()
    assert "recover" in transitions()
    assert "suspect" in exact()


def test_it_is_exact_after_what_operators_do(broker: Broker, steps: Steps) -> None:
    singles(14)
    make.dag(a="", b="a")
    steps.poll()
    with engine(broker, capacity=2) as consumer:
        running = Task.objects.get(pk=consumer.claim()[0].task_id)
        steps.drain()
        assert exact() == {"medium": (5, 8, 2)}, "a window grows with what engines have just started"
        for status in ("ready", "queued", "running"):
            cancel_task(next(of(status)).id, timezone.now())
            exact()
            dead_letter(next(of(status)).id, timezone.now(), actor="ada", why="broken")
            exact()
        requeue_task(running.id, actor="ada", why="it hangs")
        steps.drain()
        steps.poll()
        exact()
    with engine(broker, name="node.demo.0.next") as consumer:
        run_to_the_end(steps, consumer, partial(failed, Cause.REJECTED))
    assert exact() == {}
    assert {"skip", "dead_letter", "cancel"} <= transitions()
    replay([row.id for row in DeadLetter.objects.all()], timezone.now(), priority=Priority.HIGH)
    assert set(exact()) == {"high"}
    with engine(broker, name="node.demo.0.last") as consumer:
        run_to_the_end(steps, consumer)
    assert exact() == {}
    assert {"replay", "reopen"} <= transitions()


def test_it_is_exact_when_an_optional_task_fails(broker: Broker, steps: Steps) -> None:
    make.job_of(StageSpec(stage="a", queue="echo", required=False), StageSpec(stage="b", queue="echo", after=("a",)))
    steps.poll()
    with engine(broker) as consumer:
        work(consumer, partial(failed, Cause.REJECTED))
        steps.drain()
    assert "fail" in transitions()
    assert exact() == {"medium": (0, 1, 0)}


def test_it_is_exact_after_ageing(broker: Broker, steps: Steps) -> None:
    singles(5, priority="low")
    steps.poll()
    assert exact() == {"low": (2, 3, 0)}
    promote_aged(timezone.now() + timedelta(minutes=11))
    assert exact() == {"medium": (2, 3, 0)}
    promote_aged(timezone.now() + timedelta(minutes=21))
    assert exact() == {"high": (2, 3, 0)}
    with engine(broker) as consumer:
        assert run_to_the_end(steps, consumer) == 5


def test_it_is_exact_after_redis_lost_its_data(broker: Broker, steps: Steps) -> None:
    singles(6)
    steps.poll()
    with engine(broker, capacity=1) as consumer:
        consumer.claim()
        steps.drain()
        broker.reset_queue("echo")
    reconcile()
    assert "rebuild" in transitions()
    assert sum(sum(numbers) for numbers in exact().values()) == 6
    with engine(broker, name="node.demo.0.next") as consumer:
        run_to_the_end(steps, consumer)
    assert exact() == {}


def test_waiting_is_what_no_engine_has(broker: Broker, steps: Steps) -> None:
    singles(10)
    steps.poll()
    with engine(broker, capacity=3) as consumer:
        consumer.claim()
        [stats] = read_lanes(broker).queues
        assert (stats.waiting, stats.ready, stats.running) == (7, 7, 3)
        steps.drain()  # the window is refilled
        [stats] = read_lanes(broker).queues
        assert stats.waiting == 7
        assert stats.ready < 7
        [lane] = [lane for lane in stats.lanes if lane.waiting]
        assert lane.lag + lane.ready == 7
        assert stats.oldest_age_ms is not None


def test_what_redis_does_not_know_waits_in_postgres(broker: Broker, steps: Steps) -> None:
    singles(6)
    make.single("sleep", priority="low", required_capabilities=("gpu",))
    steps.poll()
    broker.reset_queue("sleep")
    Task.objects.filter(queue="sleep").update(status="ready")
    Depth.objects.create(lane="sleep@gpu", tier="low", ready=1, queued=-1, running=0)
    snapshot = read_lanes(broker)
    assert {stats.queue: stats.waiting for stats in snapshot.queues} == {"echo": 6, "sleep": 1}
    [lane] = snapshot.queues[1].lanes
    assert (lane.capabilities, lane.tier, lane.ready, lane.lag) == ("gpu", "low", 1, 0)
    assert lane.oldest_age_ms is not None
    assert [stats.queue for stats in read_lanes(broker, ["echo"]).queues] == ["echo"]


@pytest.mark.django_db(transaction=True)
def test_adding_up_keeps_the_sum_while_others_write() -> None:
    """The rows that a writer has not committed yet are neither lost nor counted twice."""
    stop = Event()
    lanes = ("echo", "sleep")

    def write() -> int:
        for number in range(200):
            with transaction.atomic():
                Depth.objects.create(lane=lanes[number % 2], tier="low", ready=1, queued=-1, running=0)
                Depth.objects.create(lane="echo", tier="medium", ready=0, queued=0, running=1 if number % 2 else -1)
        return 0

    def writers() -> int:
        try:
            at_once(write, write)
        finally:
            stop.set()
        return 0

    def add_up() -> int:
        runs = 0
        while not stop.is_set():
            compact()
            runs += 1
        return runs

    def read() -> int:
        wrong = 0
        while not stop.is_set():
            wrong += any(each.ready + each.queued for each in depths())
        return wrong

    _, first, second, wrong = at_once(writers, add_up, add_up, read)
    assert first > 0 and second > 0
    assert wrong == 0, "each writer adds what it takes away"
    expected = {LaneDepth(lane, "low", 200, -200, 0) for lane in lanes}
    assert set(depths()) == expected
    compact()
    assert set(depths()) == expected


@pytest.mark.django_db
def test_adding_up_leaves_one_row_of_a_lane_and_none_of_an_empty_one() -> None:
    for number in range(depth.MANY_ROWS + 1):
        Depth.objects.create(lane="echo", tier="low", ready=1, queued=0, running=0)
        Depth.objects.create(lane="echo", tier="high", ready=(-1) ** number, queued=0, running=0)
    Depth.objects.create(lane="echo", tier="high", ready=-1, queued=0, running=0)
    compact()
    assert list(Depth.objects.values_list("tier", "ready")) == [("low", depth.MANY_ROWS + 1)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM dalston_depth")
        assert cursor.fetchone() == (1,)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_hints")
def test_wrong_numbers_are_counted_anew_while_tasks_come_and_move() -> None:
    """Rows that a transaction has not committed yet are neither missed nor counted twice."""
    make.project()
    stop = Event()

    def submit() -> int:
        try:
            for _ in range(40):
                make.claim(make.dag(a="", b="a"))
        finally:
            stop.set()
        return 0

    def drift_and_repair() -> int:
        runs = 0
        while not stop.is_set():
            # As 0.1.0 writes it: without the project, and without what is pending.
            Depth.objects.create(lane="echo", tier="medium", ready=1, queued=0, running=0)
            assert depth.repair(dry_run=True) == 1 == depth.repair()
            assert depth.repair(dry_run=True) == 0
            runs += 1
        return runs

    _, runs = at_once(submit, drift_and_repair)
    assert runs > 1
    assert set(depth.waiting_by_project()) == set(depth.waiting_by_project(count=True)) != set()
    assert depth.repair() == 0
