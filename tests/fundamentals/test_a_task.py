"""The life of a task in ten tests: read them from the top; each uses only what the tests before it showed.

Each docstring ends with the files that decide what the test shows, under dalston_queue/.
"""

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


def test_1_submit_stores_a_task_in_postgres(dalston: Dalston) -> None:
    """Redis is not needed. A request that is repeated with the same idempotency key stores nothing new.
    Code: jobs/submit/submit.py"""
    task_id = dalston.submit(key="upload-42")

    assert dalston.task(task_id).status == "pending"
    assert dalston.submit(key="upload-42") == task_id


def test_2_claim_delivers_a_queued_task_to_one_engine(dalston: Dalston) -> None:
    """The orchestrator dispatches a task to a Redis stream, and one script both claims it and reports that it started.
    Code: jobs/lifecycle/dispatch.py, broker/operations/append.lua, broker/engine/settle_and_claim.lua"""
    task_id = dalston.submit()
    dalston.orchestrate()  # pending -> ready -> queued
    assert dalston.task(task_id).status == "queued"

    [delivery] = dalston.engine("first").claim()
    assert (delivery.task_id, delivery.message.parameters) == (str(task_id), {"file": "a.wav"})
    assert dalston.engine("second").claim() == []

    dalston.orchestrate()  # applies the event `task.started`
    assert (dalston.task(task_id).status, dalston.task(task_id).assigned_worker_id) == ("running", "first")


def test_3_settle_reports_the_result_and_claims_the_next_task(dalston: Dalston) -> None:
    """Both in one round trip. Engines write to Redis only: the orchestrator applies their events to Postgres.
    Code: broker/engine/settle_and_claim.lua, orchestrator/apply.py, jobs/lifecycle/status.py"""
    first, second = dalston.submit(), dalston.submit()
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim(1)

    answer = engine.exchange([(delivery, Completed({"text": "hello"}))], free=1)  # room for one more task
    assert answer.settled == [Settled.ACCEPTED]
    assert [each.task_id for each in answer.claimed] == [str(second)]

    dalston.orchestrate()
    assert (dalston.task(first).status, dalston.task(first).result) == ("completed", {"text": "hello"})


def test_4_the_task_of_a_crashed_engine_is_reclaimed(dalston: Dalston) -> None:
    """Nothing is lost, and the crash is counted: a task that kills three engines ends as a dead letter.
    Code: orchestrator/recovery.py, orchestrator/judge.py, broker/operations/reclaim.lua"""
    task_id = dalston.submit()
    dalston.orchestrate()
    dalston.engine("crashes").claim()

    dalston.reclaim("crashes")

    [delivery] = dalston.engine("survives").claim()
    assert (delivery.attempt, delivery.deliveries) == (1, 1)  # the same attempt; one engine died with it
    delivery.settle(Completed())
    dalston.orchestrate()
    assert dalston.task(task_id).status == "completed"


def test_5_the_late_result_of_a_zombie_is_refused(dalston: Dalston) -> None:
    """A zombie is an engine that was judged dead but still runs, e.g. after a network partition. Its session is closed.
    Code: broker/engine/settle_and_claim.lua, broker/engine/session.py"""
    task_id = dalston.submit()
    dalston.orchestrate()
    [stale] = dalston.engine("zombie").claim()
    dalston.reclaim("zombie")
    [delivery] = dalston.engine("owner").claim()

    with pytest.raises(Fenced):
        stale.settle(Completed("from the zombie"))

    delivery.settle(Completed("from the owner"))
    dalston.orchestrate()
    assert dalston.task(task_id).result == "from the owner"


def test_6_a_failed_task_is_retried_after_a_backoff(dalston: Dalston) -> None:
    """A retry is a new attempt. The retry policy decides from the cause of the failure and the attempts so far.
    Code: jobs/lifecycle/retry.py, orchestrator/scheduler.py"""
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
    """A job is a DAG of stages, each a task. A stage gets the results of the stages before it.
    Code: jobs/lifecycle/dag.py, jobs/lifecycle/advance.py"""
    job_id = dalston.submit_dag(prepare="", left="prepare", right="prepare", merge="left right")
    engine = dalston.engine("engine")
    waves = []
    for _ in range(3):
        dalston.orchestrate()
        deliveries = engine.claim()
        waves.append(sorted(delivery.message.stage for delivery in deliveries))
        engine.exchange([(delivery, Completed(delivery.message.stage)) for delivery in deliveries], free=0)
    assert waves == [["prepare"], ["left", "right"], ["merge"]]
    assert deliveries[0].message.inputs == {"left": "left", "right": "right"}

    dalston.orchestrate()
    assert dalston.job(job_id).status == "completed"


def test_8_cancel_removes_waiting_tasks_and_asks_engines_to_stop_running_ones(dalston: Dalston) -> None:
    """The engine of a running task gets the request with its next renewal, and settles the task as cancelled.
    Code: jobs/operator/cancel.py, jobs/lifecycle/stop.py, broker/operations/cancel.lua, broker/engine/renew.lua"""
    job_id = dalston.submit_dag(runs="", waits="runs")
    dalston.orchestrate()
    engine = dalston.engine("engine")
    [delivery] = engine.claim()
    dalston.orchestrate()

    cancel_job(job_id, timezone.now())
    assert dalston.job(job_id).status == "cancelling"

    assert engine.renew_all().cancelled == [delivery]
    delivery.settle(Cancelled())
    dalston.orchestrate()
    assert dalston.statuses(job_id) == {"runs": "cancelled", "waits": "cancelled"}


def test_9_a_task_without_retries_left_is_a_dead_letter_until_it_is_replayed(dalston: Dalston) -> None:
    """A rejected task gets no retry: the next attempt would fail too. An operator replays it when the cause is gone.
    Code: jobs/lifecycle/dead_letters.py, jobs/operator/replay.py"""
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
    assert again.attempt == 2  # attempts only grow: a late result of attempt 1 is refused


def test_10_a_draining_engine_releases_its_tasks(dalston: Dalston) -> None:
    """Another engine runs them, as the same attempt and without a counted delivery: a deploy costs no retries.
    Code: broker/engine/consumer.py, broker/engine/release.lua"""
    task_id = dalston.submit()
    dalston.orchestrate()
    draining = dalston.engine("draining")
    draining.claim()

    draining.release()

    [delivery] = dalston.engine("other").claim()
    assert (delivery.task_id, delivery.attempt, delivery.deliveries) == (str(task_id), 1, 0)
