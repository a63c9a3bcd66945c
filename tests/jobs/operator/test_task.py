"""Requeue and dead-letter of one task by an operator. Of two requests one counts."""

from uuid import uuid4

from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.broker.protocol.types import Settled
from dalston_queue.jobs.operator.task import DeadLetterOutcome, dead_letter, requeue_task
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import DeadLetter, Job, Task, TaskEvent
from tests.jobs import make
from tests.orchestrator.support import Steps, engine


def test_a_task_that_is_requeued_waits_again_with_its_budgets_untouched(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    task = Task.objects.get(job=job)
    steps.poll()
    with engine(broker, name="slow") as slow, engine(broker, name="other") as other:
        [claimed] = slow.claim()
        steps.drain()
        first = requeue_task(task.id, actor="ada", why="it hangs", entry_id=claimed.entry_id)
        second = requeue_task(task.id, actor="bea", why="it hangs", entry_id=claimed.entry_id)
        assert (first.outcome, second.outcome) == ("returned", "waiting")
        steps.drain()
        task.refresh_from_db()
        assert (task.status, task.attempt, task.deliveries, task.retry_count) == ("queued", 1, 0, 0)
        assert "taken from its engine by ada: it hangs" in TaskEvent.objects.filter(task=task).latest("id").message
        [again] = other.claim()
        assert slow.exchange([(claimed, Completed())], free=0).settled == [Settled.LOST]
        assert other.exchange([(again, Completed())], free=0).settled == [Settled.ACCEPTED]
        third = requeue_task(task.id, actor="bea", why="")
        steps.drain()
    assert third.outcome == "absent"
    assert requeue_task(task.id, actor="bea", why="").status == "completed"
    assert not requeue_task(uuid4(), actor="bea", why="").found


def test_a_waiting_task_is_a_dead_letter_at_once(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    task = Task.objects.get(job=job, stage="a")
    steps.poll()
    done = dead_letter(task.id, timezone.now(), actor="ada", why="the file is broken")
    assert (done.outcome, done.status) == (DeadLetterOutcome.ENDED, "dead_letter")
    found = DeadLetter.objects.get(task=task)
    assert (found.cause, found.error) == ("rejected", "dead-lettered by ada: the file is broken")
    assert make.statuses(job) == {"a": "dead_letter", "b": "skipped"}
    assert Job.objects.get(id=job.id).status == "failed"
    again = dead_letter(task.id, timezone.now(), actor="bea", why="the same")
    assert (again.outcome, again.status) == (DeadLetterOutcome.OVER, "dead_letter")
    assert DeadLetter.objects.count() == 1
    with engine(broker) as consumer:
        assert consumer.claim() == []
    steps.drain()


def test_a_running_task_is_taken_from_its_engine_and_its_result_refused(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    task = Task.objects.get(job=job)
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        done = dead_letter(task.id, timezone.now(), actor="ada", why="poison", attempt=1)
        again = dead_letter(task.id, timezone.now(), actor="bea", why="poison", attempt=1)
        assert (done.outcome, again.outcome) == (DeadLetterOutcome.TAKEN, DeadLetterOutcome.OVER)
        assert consumer.exchange([(claimed, Completed())], free=0).settled == [Settled.LOST]
        steps.drain()
    assert make.statuses(job) == {"a": "dead_letter"}
    assert "dead-lettered by ada: poison" in DeadLetter.objects.get(task=task).error


def test_a_task_that_is_not_queued_or_at_another_attempt_is_left_alone(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    first, second = (Task.objects.get(job=job, stage=stage) for stage in ("a", "b"))
    assert dead_letter(second.id, timezone.now(), actor="ada", why="x").outcome is DeadLetterOutcome.NOT_QUEUED
    assert dead_letter(first.id, timezone.now(), actor="ada", why="x", attempt=7).outcome is DeadLetterOutcome.CHANGED
    assert not dead_letter(uuid4(), timezone.now(), actor="ada", why="x").found
    assert make.statuses(job) == {"a": "queued", "b": "pending"}
    steps.drain()
    broker.reset_queue("echo")


def test_an_optional_task_ends_as_failed_and_its_job_goes_on(broker: Broker, steps: Steps) -> None:
    job = make.job_of(StageSpec(stage="a", queue="echo", required=False), StageSpec(stage="b", queue="echo"))
    steps.poll()
    task = Task.objects.get(job=job, stage="a")
    assert dead_letter(task.id, timezone.now(), actor="ada", why="x").status == "failed"
    assert make.statuses(job) == {"a": "failed", "b": "queued"}
    steps.drain()
    broker.reset_queue("echo")
