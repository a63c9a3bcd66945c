"""Ageing: a task that has waited long counts as one of the next higher priority, wherever it waits."""

from datetime import timedelta

import pytest
from django.db import transaction
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.order.ageing import promote_aged
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Task
from tests.jobs import make
from tests.jobs.make import NOW
from tests.orchestrator.support import Steps, echo, engine, run_to_the_end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def waiting(count: int, priority: str) -> list[Task]:
    """READY since NOW, nothing dispatched."""
    tasks = [make.single(priority=priority) for _ in range(count)]
    make.claim(*(task.job for task in tasks))
    return tasks


def priorities() -> list[str]:
    return list(Task.objects.order_by("id").values_list("effective_priority", flat=True))


@pytest.mark.usefixtures("broker")
def test_low_counts_as_medium_after_ten_minutes_and_as_high_after_twenty() -> None:
    waiting(1, "low")
    for at, expected in ((9.9, "low"), (10, "medium"), (19.9, "medium"), (20, "high"), (60, "high")):
        promote_aged(NOW + minutes(at))
        assert priorities() == [expected]
    rows = Task.objects.get().events.filter(transition="promote").order_by("id")
    assert [row.message for row in rows] == [
        "from low to medium: it has waited 10 min",
        "from medium to high: it has waited 20 min",
    ]
    assert depths() == counted()


@pytest.mark.usefixtures("broker")
def test_more_than_a_batch_is_promoted_at_once(settings: Settings) -> None:
    settings.DALSTON_PROMOTE_BATCH = 2
    waiting(5, "low")
    promote_aged(NOW + minutes(10))
    assert priorities() == ["medium"] * 5
    assert depths() == counted()


def test_an_aged_task_is_withdrawn_from_its_window_and_goes_into_that_of_its_new_tier(broker: Broker) -> None:
    [task] = waiting(1, "low")
    refill(None, NOW)
    assert broker.records("echo", [str(task.id)])[str(task.id)].stream.endswith(":low")
    promote_aged(NOW + minutes(10))
    task.refresh_from_db()
    assert (task.status, task.attempt, task.tier) == ("queued", 1, "medium")
    assert not broker.records("echo", [str(task.id)])[str(task.id)].stream.endswith(":low")
    assert [row.message for row in task.events.filter(transition="promote")] == [
        "from low to medium: it has waited 10 min"
    ]
    assert depths() == counted()


def test_an_entry_that_a_crash_left_does_not_stay_in_the_lower_tier(broker: Broker) -> None:
    """A refill that dies after the append leaves a READY task with an entry."""
    [task] = waiting(1, "low")
    with transaction.atomic():
        refill(None, NOW)
        transaction.set_rollback(True)
    task.refresh_from_db()
    assert (task.status, broker.snapshot(["echo"]).queues[0].waiting) == ("ready", 1)
    promote_aged(NOW + minutes(10))
    task.refresh_from_db()
    assert (task.status, task.attempt, task.tier) == ("queued", 1, "medium")
    assert not broker.records("echo", [str(task.id)])[str(task.id)].stream.endswith(":low")
    assert broker.snapshot(["echo"]).queues[0].waiting == 1


def test_a_task_that_runs_since_a_crash_is_not_promoted(broker: Broker) -> None:
    [task] = waiting(1, "low")
    with transaction.atomic():
        refill(None, NOW)
        transaction.set_rollback(True)
    with engine(broker, "echo") as consumer:
        [claimed] = consumer.claim()
        promote_aged(NOW + minutes(30))
        assert priorities() == ["low"]
        claimed.settle(echo(claimed))
        run_to_the_end(Steps(broker), consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 1)


def test_what_an_engine_has_is_left_alone(broker: Broker) -> None:
    [task] = waiting(1, "low")
    refill(None, NOW)
    with engine(broker, "echo") as consumer:
        [claimed] = consumer.claim()
        promote_aged(NOW + minutes(30))
        assert priorities() == ["low"]
        consumer.release([claimed])
        promote_aged(NOW + minutes(30))  # its release is not applied yet: it waits in front of the others
        assert priorities() == ["low"]
        run_to_the_end(Steps(broker), consumer)
    task.refresh_from_db()
    assert task.status == "completed"


@pytest.mark.usefixtures("broker")
def test_a_retry_keeps_its_age() -> None:
    [task] = waiting(1, "low")
    make.move("retry", [task], scheduled_at=NOW)
    task.refresh_from_db()
    make.move("due", [task])
    promote_aged(NOW + minutes(10))
    assert priorities() == ["medium"]
