"""Ten stories of a task: read them from the top; each one needs only those before it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.protocol.messages import Cancelled, Completed, ErrorInfo, Failed
from dalston_queue.broker.protocol.types import Cause, Settled
from dalston_queue.jobs.operator.cancel import cancel_job
from dalston_queue.jobs.operator.replay import replay
from dalston_queue.models import DeadLetter, Task
from tests.fundamentals.conftest import Dalston


def test_1_submit_stores_a_task_in_postgres_and_the_same_key_stores_it_once(dalston: Dalston) -> None:
    task_id = dalston.submit(key="upload-42")

    assert dalston.task(task_id).status == "pending"
    assert dalston.submit(key="upload-42") == task_id


def test_2_claim_gives_a_queued_task_to_one_engine(dalston: Dalston) -> None:
    task_id = dalston.submit()
    dalston.orchestrate()  # pending -> ready -> queued: the task has an entry in a Redis stream
    assert dalston.task(task_id).status == "queued"

    [delivery] = dalston.engine("first").claim()
    assert (delivery.task_id, delivery.message.parameters) == (str(task_id), {"file": "a.wav"})
    assert dalston.engine("second").claim() == []

    dalston.orchestrate()  # the script that claimed also wrote the event `task.started`
    assert (dalston.task(task_id).status, dalston.task(task_id).assigned_worker_id) == ("running", "first")


def test_3_settle_reports_the_result_and_claims_the_next_task_in_one_round_trip(dalston: Dalston) -> None:
    first, second = dalston.submit(), dalston.submit()
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim(1)

    answer = engine.exchange([(delivery, Completed({"text": "hello"}))], free=1)
    assert (answer.settled, [each.task_id for each in answer.claimed]) == ([Settled.ACCEPTED], [str(second)])

    dalston.orchestrate()
    assert (dalston.task(first).status, dalston.task(first).result) == ("completed", {"text": "hello"})


def test_4_a_crashed_engine_loses_nothing_and_the_crash_is_counted(dalston: Dalston) -> None:
    task_id = dalston.submit()
    dalston.orchestrate()
    dalston.engine("crashes").claim()

    dalston.kill("crashes")

    [delivery] = dalston.engine("survives").claim()
    assert (delivery.attempt, delivery.deliveries) == (1, 1)  # the same attempt; one engine died with it
    delivery.settle(Completed())
    dalston.orchestrate()
    assert dalston.task(task_id).status == "completed"


def test_5_a_zombie_that_comes_back_late_is_refused(dalston: Dalston) -> None:
    task_id = dalston.submit()
    dalston.orchestrate()
    [stale] = dalston.engine("zombie").claim()
    dalston.kill("zombie")  # taken for dead, but the process still runs
    [delivery] = dalston.engine("owner").claim()

    with pytest.raises(Fenced):
        stale.settle(Completed("from the zombie"))

    delivery.settle(Completed("from the owner"))
    dalston.orchestrate()
    assert dalston.task(task_id).result == "from the owner"


def test_6_a_failed_task_is_retried_after_a_backoff_as_the_next_attempt(dalston: Dalston) -> None:
    task_id = dalston.submit()
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim()

    delivery.settle(Failed(ErrorInfo(message="out of disk", retry_after_s=60)))
    dalston.orchestrate()
    task = dalston.task(task_id)
    assert (task.status, task.attempt, task.retry_count) == ("scheduled", 2, 1)

    Task.objects.update(scheduled_at=timezone.now() - timedelta(seconds=1))  # the minute is over
    dalston.orchestrate()
    [retry] = engine.claim()
    assert retry.attempt == 2
    retry.settle(Completed())


def test_7_a_dag_runs_a_stage_when_the_stages_before_it_are_completed(dalston: Dalston) -> None:
    job_id = dalston.submit_dag(prepare="", left="prepare", right="prepare", merge="left right")
    engine = dalston.engine("engine")
    waves = []
    for _ in range(3):
        dalston.orchestrate()
        deliveries = engine.claim()
        waves.append(sorted(delivery.message.stage for delivery in deliveries))
        engine.exchange([(delivery, Completed(delivery.message.stage)) for delivery in deliveries], free=0)
    assert waves == [["prepare"], ["left", "right"], ["merge"]]
    assert deliveries[0].message.inputs == {"left": "left", "right": "right"}  # results of the stages before it

    dalston.orchestrate()
    assert dalston.job(job_id).status == "completed"


def test_8_cancel_removes_what_waits_and_asks_the_engine_of_what_runs_to_stop(dalston: Dalston) -> None:
    job_id = dalston.submit_dag(runs="", waits="runs")
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim()
    dalston.orchestrate()

    cancel_job(job_id, timezone.now())
    assert dalston.job(job_id).status == "cancelling"

    assert engine.beat().cancelled == [delivery]  # the engine hears of it with its next heartbeat
    delivery.settle(Cancelled())
    dalston.orchestrate()
    assert dalston.statuses(job_id) == {"runs": "cancelled", "waits": "cancelled"}


def test_9_a_task_without_retries_left_is_a_dead_letter_until_an_operator_replays_it(dalston: Dalston) -> None:
    job_id = dalston.submit_dag(broken="", later="broken")
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim()
    delivery.settle(Failed(ErrorInfo(message="not an audio file", cause=Cause.REJECTED)))
    dalston.orchestrate()
    assert dalston.statuses(job_id) == {"broken": "dead_letter", "later": "skipped"}

    replay([DeadLetter.objects.get().id], timezone.now())
    dalston.orchestrate()
    assert dalston.statuses(job_id) == {"broken": "queued", "later": "pending"}
    [again] = engine.claim()
    assert again.attempt == 2  # attempts only grow: a late answer of attempt 1 can't count any more


def test_10_a_draining_engine_releases_its_work_and_nothing_is_counted(dalston: Dalston) -> None:
    task_id = dalston.submit()
    dalston.orchestrate()
    draining = dalston.engine("draining")
    draining.claim()

    draining.release()

    [delivery] = dalston.engine("other").claim()
    assert (delivery.task_id, delivery.attempt, delivery.deliveries) == (str(task_id), 1, 0)
