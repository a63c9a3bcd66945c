"""Cancel: a waiting task ends at once, the engine of a running one is asked to stop, and a race has one winner."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Cancelled, Completed
from dalston_queue.broker.protocol.types import Settled
from dalston_queue.jobs.operator.cancel import cancel_job, cancel_task
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import Job, Task
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end


def now() -> datetime:
    return timezone.now()


def test_a_job_that_is_not_claimed_is_cancelled_at_once(steps: Steps) -> None:
    job = make.dag(a="", b="a")
    outcome = cancel_job(job.id, now())
    assert (outcome.status, outcome.was_running, outcome.already_over) == ("cancelled", False, False)
    assert make.statuses(job) == {"a": "cancelled", "b": "cancelled"}
    steps.poll()
    steps.drain()
    assert make.statuses(job) == {"a": "cancelled", "b": "cancelled"}


def test_a_waiting_entry_is_removed_and_the_job_is_over_at_once(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    outcome = cancel_job(job.id, now())
    assert (outcome.status, outcome.was_running, outcome.sent) == ("cancelled", False, False)
    with engine(broker) as consumer:
        assert consumer.claim() == []
    steps.drain()


def test_the_engine_of_a_running_task_is_asked_and_its_answer_ends_the_job(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        outcome = cancel_job(job.id, now())
        assert (outcome.status, outcome.was_running, outcome.sent) == ("cancelling", True, True)
        assert consumer.renew_all().cancelled == [claimed]
        claimed.settle(Cancelled())
        steps.drain()
    job = Job.objects.get(id=job.id)
    assert job.status == "cancelled"
    assert make.statuses(job) == {"a": "cancelled", "b": "cancelled"}
    task = Task.objects.get(job=job, stage="a")
    assert job.cancel_requested_at is not None
    assert job.finished_at is not None
    assert task.cancel_requested_at is not None
    assert task.cancel_sent_at is not None
    assert task.finished_at is not None
    assert task.cancel_requested_at <= task.cancel_sent_at <= task.finished_at + timedelta(seconds=1)


def test_a_completion_that_comes_first_wins_and_the_job_is_cancelled_behind_it(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert claimed.settle(Completed(1)) is Settled.ACCEPTED
        assert cancel_job(job.id, now()).status == "cancelling"
        steps.drain()
    assert make.statuses(job) == {"a": "completed", "b": "cancelled"}
    assert Job.objects.get(id=job.id).status == "cancelled"


def test_a_cancel_that_comes_after_the_last_completion_leaves_the_job_completed(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert claimed.settle(Completed(1)) is Settled.ACCEPTED
        assert cancel_job(job.id, now()).status == "cancelling"
        steps.drain()
    assert make.statuses(job) == {"a": "completed"}
    job.refresh_from_db()
    assert (job.status, job.progress) == ("completed", 1)


def test_a_cancel_that_stops_only_optional_work_of_a_job_that_has_done_the_rest_leaves_it_completed(
    broker: Broker, steps: Steps
) -> None:
    job = make.job_of(
        StageSpec(stage="a", queue="echo"), StageSpec(stage="extra", queue="echo", required=False, after=("a",))
    )
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        claimed.settle(Completed(1))
        steps.drain()
        assert cancel_job(job.id, now()).status == "completed"
    assert make.statuses(job) == {"a": "completed", "extra": "cancelled"}
    steps.drain()


def test_a_job_of_optional_stages_that_is_cancelled_before_any_ran_is_cancelled(steps: Steps) -> None:
    job = make.job_of(StageSpec(stage="extra", queue="echo", required=False))
    assert cancel_job(job.id, now()).status == "cancelled"
    steps.drain()


def test_an_engine_that_does_not_stop_loses_the_task_and_its_result_is_refused(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        cancel_job(job.id, now())
        Task.objects.filter(job=job).update(cancel_requested_at=now() - timedelta(seconds=31))
        steps.poll()
        steps.drain()
        assert claimed.settle(Completed(1)) is Settled.LOST
        steps.drain()
    assert make.statuses(job) == {"a": "cancelled"}
    assert Job.objects.get(id=job.id).status == "cancelled"


def test_a_task_that_is_released_while_it_is_being_cancelled_does_not_run_again(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        cancel_job(job.id, now())
        run_to_the_end(steps, consumer)
        consumer.release()
        steps.drain()
        steps.poll()
        steps.drain()
    assert make.statuses(job) == {"a": "cancelled"}


def test_a_task_that_its_engine_released_instead_of_stopping_it_was_not_running_any_more(
    broker: Broker, steps: Steps
) -> None:
    job = make.dag(a="")
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        assert cancel_job(job.id, now()).sent
        consumer.release()
        steps.drain()
        outcome = cancel_task(Task.objects.get(job=job).id, now())
    assert (outcome.status, outcome.was_running, outcome.sent) == ("cancelled", False, False)
    steps.drain()


def test_cancelling_a_required_task_cancels_its_job(steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    outcome = cancel_task(Task.objects.get(job=job, stage="b").id, now())
    assert outcome.status == "cancelled"
    assert Job.objects.get(id=job.id).status == "cancelled"
    steps.drain()


def test_cancelling_an_optional_task_lets_the_others_run(broker: Broker, steps: Steps) -> None:
    job = make.job_of(
        StageSpec(stage="a", queue="echo"),
        StageSpec(stage="extra", queue="echo", required=False),
        StageSpec(stage="b", queue="echo", after=("a", "extra")),
    )
    steps.poll()
    outcome = cancel_task(Task.objects.get(job=job, stage="extra").id, now())
    assert (outcome.status, outcome.was_running) == ("cancelled", False)
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    assert make.statuses(job) == {"a": "completed", "b": "completed", "extra": "cancelled"}
    assert Job.objects.get(id=job.id).status == "completed"


def test_what_is_over_stays_as_it_is(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    outcome = cancel_job(job.id, now())
    assert (outcome.already_over, outcome.status) == (True, "completed")
    assert cancel_task(Task.objects.get(job=job).id, now()).already_over


@pytest.mark.django_db
def test_a_job_and_a_task_that_do_not_exist_are_not_found() -> None:
    assert not cancel_job(uuid4(), now()).found
    assert not cancel_task(uuid4(), now()).found


def test_while_redis_is_away_the_cancel_is_stored_and_done_later(
    broker: Broker, steps: Steps, settings: Settings
) -> None:
    job = make.dag(a="")
    steps.poll()
    address, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    outcome = cancel_job(job.id, now())
    assert (outcome.status, outcome.sent, outcome.reached) == ("cancelling", False, False)
    settings.REDIS_URL = address
    steps.poll()
    assert Job.objects.get(id=job.id).status == "cancelled"
    steps.drain()
