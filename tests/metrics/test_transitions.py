"""Transitions are counted by the writer of status: once, after the commit, with their waits and durations."""

import pytest
from django.db import transaction

from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.protocol.messages import ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.lifecycle.dead_letters import dead_letter_unreadable
from dalston_queue.metrics.tasks import reason_of
from dalston_queue.models import Task, TaskEvent
from tests.jobs import make
from tests.metrics.support import Grown
from tests.orchestrator.support import Steps, engine, run_to_the_end, work

MOVES = "dalston_task_state_transitions_total"


def failed(_: Delivery) -> Outcome:
    return Failed(ErrorInfo(message="no luck", cause=Cause.GPU_OOM))


def transitions(grown: Grown) -> dict[tuple[str, str], float]:
    history = set(TaskEvent.objects.values_list("from_status", "to_status"))
    return {pair: grown.by(MOVES, **{"from": pair[0], "to": pair[1]}) for pair in history}


def test_what_is_counted_is_the_history(broker: Broker, steps: Steps) -> None:
    grown = Grown()
    for _ in range(3):
        make.single("echo", priority="high")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    rows = list(TaskEvent.objects.values_list("from_status", "to_status"))
    assert ("queued", "running") in rows
    assert transitions(grown) == {pair: rows.count(pair) for pair in set(rows)}
    assert grown.by("dalston_tasks_submitted_total", priority="high") == 3
    assert grown.by("dalston_task_wait_seconds_count", priority="high") == 3
    assert grown.by("dalston_task_claim_latency_seconds_count", priority="high") == 3
    for histogram in ("dalston_task_execution_duration_seconds", "dalston_task_duration_seconds"):
        assert grown.by(f"{histogram}_count", priority="high", status="completed") == 3
    took = [(task.finished_at - task.created_at).total_seconds() for task in Task.objects.all()]
    total = grown.by("dalston_task_duration_seconds_sum", priority="high", status="completed")
    assert total == pytest.approx(sum(took), abs=0.01)
    broker.reset_queue("echo")


def test_failures_count_by_reason_and_a_retried_task_waits_only_once(broker: Broker, steps: Steps) -> None:
    grown = Grown()
    make.single("echo", priority="low", max_retries=1)
    labels = {"priority": "low", "reason": "gpu_oom"}
    with engine(broker) as consumer:
        for _ in range(2):
            steps.poll()
            assert work(consumer, failed)
            steps.drain()
            Task.objects.filter(status="scheduled").update(scheduled_at=make.NOW)
    assert grown.by("dalston_tasks_failed_total", **labels) == 2
    assert grown.by("dalston_task_retries_total", **labels) == 1
    assert grown.by("dalston_tasks_dlq_total", reason="gpu_oom") == 1
    assert grown.by("dalston_task_wait_seconds_count", priority="low") == 1
    assert grown.by("dalston_task_claim_latency_seconds_count", priority="low") == 2
    assert grown.by("dalston_task_duration_seconds_count", priority="low", status="dead_letter") == 1
    broker.reset_queue("echo")


def test_a_cause_that_only_a_newer_engine_knows_is_an_error() -> None:
    """Label values are bounded: an engine may report any text."""
    assert {reason_of(cause) for cause in Cause} == set(Cause)
    assert reason_of("flux_capacitor_empty") == reason_of("") == Cause.ERROR


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_a_move_that_is_rolled_back_is_not_counted(broker: Broker) -> None:
    task = make.single()
    grown = Grown()
    with transaction.atomic():
        make.move("make_ready", [task])
        transaction.set_rollback(True)
    assert grown.by(MOVES, **{"from": "pending", "to": "ready"}) == 0
    make.move("make_ready", [task])
    assert grown.by(MOVES, **{"from": "pending", "to": "ready"}) == 1


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_a_promotion_counts_by_its_priorities(broker: Broker) -> None:
    task = make.single("echo", priority="low")
    make.move("make_ready", [task])
    grown = Grown()
    make.move("promote", [task], priority="medium")
    assert grown.by("dalston_tasks_promoted_total", **{"from": "low", "to": "medium"}) == 1


@pytest.mark.django_db(transaction=True)
def test_unreadable_bytes_count_once_however_often_they_are_handled() -> None:
    grown = Grown()
    for _ in range(2):
        dead_letter_unreadable("echo", "0 s 1-0", "no JSON", {"h": b"x"}, make.NOW)
    assert grown.by("dalston_tasks_dlq_total", reason="unreadable") == 1
