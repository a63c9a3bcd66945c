"""The reconciler: entries that Redis lost are appended again, orphans are removed, and stuck jobs are advanced."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, TaskMessage
from dalston_queue.broker.protocol.types import Cause, Tier
from dalston_queue.jobs.operator.cancel import cancel_job, cancel_task
from dalston_queue.jobs.operator.replay import replay
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import DeadLetter, Depth, Job, Task
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end


def flush(broker: Broker) -> None:
    """Redis forgets everything of this test."""
    for queue in broker.queues():
        broker.reset_queue(queue)


def test_nothing_differs_in_a_healthy_system(broker: Broker, steps: Steps) -> None:
    make.dag(a="", b="a")
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        assert reconcile().found == {}
        steps.drain()
        assert reconcile().found == {}
        consumer.release()
        run_to_the_end(steps, consumer)
    assert reconcile().found == {}


def test_after_a_flush_everything_waiting_and_running_runs_under_a_new_attempt(broker: Broker, steps: Steps) -> None:
    jobs = [make.dag(a="", b="a") for _ in range(3)]
    steps.poll()
    with engine(broker, capacity=1) as consumer:
        consumer.claim()
        steps.drain()
        flush(broker)
    assert reconcile().found == {"in Postgres but not in Redis": 3}
    with engine(broker, name="node.demo.0.second") as consumer:
        run_to_the_end(steps, consumer)
    assert set(Job.objects.filter(id__in=[job.id for job in jobs]).values_list("status", flat=True)) == {"completed"}
    assert set(Task.objects.filter(stage="a").values_list("attempt", flat=True)) == {2}


def test_a_rebuilt_task_is_still_charged_with_the_engines_that_died_with_it(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    Task.objects.filter(id=task.id).update(deliveries=2, node_losses=4)
    flush(broker)
    reconcile()
    record = broker.records("echo", [str(task.id)])[str(task.id)]
    assert (record.deliveries, record.losses) == (2, 4)
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        assert claimed.tier is Tier.SUSPECT
        consumer.release()
        run_to_the_end(steps, consumer)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    flush(broker)
    out = StringIO()
    call_command("reconcile", "--dry-run", stdout=out)
    assert out.getvalue().splitlines() == [
        f"in Postgres but not in Redis: task {task.id} (echo, attempt 1)",
        "would repair: 1 × in Postgres but not in Redis",
    ]
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("queued", 1)
    steps.drain()


@pytest.mark.django_db
def test_the_command_counts_wrong_depths_anew() -> None:
    Depth.objects.create(lane="echo", tier="medium", ready=7, queued=0, running=0)
    for arguments, line in (
        (["--dry-run"], "would repair: 1 × wrong depths"),
        ([], "repaired: 1 × wrong depths"),
        ([], "repaired: nothing differs"),
    ):
        out = StringIO()
        call_command("reconcile", *arguments, stdout=out)
        assert out.getvalue() == f"{line}\n"


def test_a_deleted_stream_gets_its_entries_back(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    shard = broker.home
    shard.command("DEL", shard.keys.stream("echo"))
    assert reconcile().found == {"records without entry": 1}
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 1)


def test_an_entry_without_a_task_is_removed(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    Job.objects.filter(id=task.job_id).delete()
    assert reconcile().found == {"in Redis without a live task": 1}
    with engine(broker) as consumer:
        assert consumer.claim() == []
    steps.drain()


def test_an_entry_of_a_task_that_is_over_is_removed(broker: Broker, steps: Steps) -> None:
    task = make.single()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
        broker.append(
            [TaskMessage(task_id=str(task.id), job_id=str(task.job_id), queue="echo", task_type="echo", attempt=1)]
        )
        assert reconcile().found == {"in Redis without a live task": 1}
        assert consumer.claim() == []


def test_an_event_that_was_lost_with_its_stream_leads_to_a_new_attempt(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    with engine(broker) as consumer:
        [claimed] = consumer.claim()
        steps.drain()
        consumer.exchange([(claimed, Completed(1))], free=0)
        shard = broker.home
        shard.command("DEL", shard.keys.events("echo"))
        assert reconcile().found == {"settled, but its event is gone": 1}
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 2)


def test_a_task_whose_event_is_lost_each_time_becomes_a_dead_letter(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    with engine(broker) as consumer:
        lose_the_event(broker, steps, consumer, times=4)
        task.refresh_from_db()
        assert (task.status, task.attempt, task.job.status) == ("dead_letter", 4, "failed")
        dead_letter = DeadLetter.objects.get()
        assert dead_letter.error == "it was settled, but the event of it was gone, 4 times"
        assert broker.records("echo", [str(task.id)]) == {}
        replay([dead_letter.id], timezone.now())
        steps.poll()
        lose_the_event(broker, steps, consumer, times=1)
        task.refresh_from_db()
        assert (task.status, task.attempt) == ("queued", 6), "a replay starts with nothing lost"
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert task.status == "completed"


def lose_the_event(broker: Broker, steps: Steps, consumer: Consumer, *, times: int) -> None:
    shard = broker.home
    for _ in range(times):
        [claimed] = consumer.claim()
        steps.drain()
        consumer.exchange([(claimed, Completed(1))], free=0)
        shard.command("DEL", shard.keys.events("echo"))
        assert reconcile().found == {"settled, but its event is gone": 1}


def test_a_job_that_was_cancelled_before_a_flush_ends(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a")
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        assert cancel_job(job.id, timezone.now()).status == "cancelling"
        flush(broker)
    assert reconcile().found == {"in Postgres but not in Redis": 1}
    job.refresh_from_db()
    assert (job.status, make.statuses(job)) == ("cancelled", {"a": "cancelled", "b": "cancelled"})
    steps.drain()


def test_a_job_that_winds_down_after_a_dead_letter_ends_after_a_flush(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="", c="b")
    steps.poll()
    with engine(broker) as consumer:
        claimed = {task.message.stage: task for task in consumer.claim()}
        error = ErrorInfo(message="no", cause=Cause.REJECTED)
        consumer.exchange([(claimed["a"], Failed(error))], free=0)
        steps.drain()
        job.refresh_from_db()
        assert job.status == "cancelling"
        flush(broker)
    reconcile()
    job.refresh_from_db()
    assert (job.status, make.statuses(job)) == ("failed", {"a": "dead_letter", "b": "cancelled", "c": "skipped"})
    steps.drain()


def test_an_optional_task_that_was_cancelled_before_a_flush_is_over_and_the_others_run(
    broker: Broker, steps: Steps
) -> None:
    job = make.job_of(
        StageSpec(stage="extra", queue="echo", required=False), StageSpec(stage="b", queue="echo", after=("extra",))
    )
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        cancel_task(Task.objects.get(job=job, stage="extra").id, timezone.now())
        flush(broker)
    reconcile()
    assert make.statuses(job) == {"b": "queued", "extra": "cancelled"}
    with engine(broker, name="node.demo.0.second") as consumer:
        run_to_the_end(steps, consumer)
    job.refresh_from_db()
    assert job.status == "completed"


@pytest.mark.parametrize("move", ["rebuild", "retry"])
def test_a_cancelling_job_with_a_task_that_is_never_dispatched_ends(broker: Broker, steps: Steps, move: str) -> None:
    job = make.dag(a="")
    steps.poll()
    with engine(broker) as consumer:
        consumer.claim()
        steps.drain()
        cancel_job(job.id, timezone.now())
        flush(broker)
    make.move(move, Task.objects.filter(job=job), **({"scheduled_at": timezone.now()} if move == "retry" else {}))
    reconcile()
    job.refresh_from_db()
    assert (job.status, make.statuses(job)) == ("cancelled", {"a": "skipped"})
    steps.drain()


def test_a_settled_task_whose_event_is_still_to_be_read_is_left_alone(broker: Broker, steps: Steps) -> None:
    task = make.single()
    steps.poll()
    with engine(broker) as consumer:
        for claimed in consumer.claim():
            consumer.exchange([(claimed, Completed(1))], free=0)
    assert reconcile().found == {}
    steps.drain()
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 1)


def test_a_job_whose_tasks_are_all_over_is_ended(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    steps.poll()
    now = timezone.now()
    make.move("complete", Task.objects.filter(job=job), result="1")
    assert reconcile().found["job that nothing would move"] == 1
    job.refresh_from_db()
    assert job.status == "completed"
    assert job.finished_at is not None
    assert job.finished_at >= now
    steps.drain()


def test_a_job_without_tasks_is_ended(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="")
    make.claim(job)
    Task.objects.filter(job=job).delete()
    assert reconcile().found == {"job that nothing would move": 1}
    job.refresh_from_db()
    assert (job.status, job.error) == ("failed", "it has no tasks")
    steps.drain()


def test_a_ready_task_without_an_entry_is_queued(broker: Broker, steps: Steps) -> None:
    task = make.single()
    make.claim(task.job)
    assert reconcile().found == {"ready without entry": 1}
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt) == ("completed", 1)
