"""Replay of dead letters: fresh budgets, the next attempt; idempotent; for one, many and all that match."""

from functools import partial
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.utils import timezone

from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, Priority
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.operator.replay import Filter, Replayed, discard, matching, replay
from dalston_queue.jobs.operator.replay import Outcome as Replay
from dalston_queue.jobs.operator.replay_batches import create_replay_batch
from dalston_queue.models import DeadLetter, Job, JobArtifact, Project, Task
from tests.jobs import make
from tests.orchestrator.support import Steps, a_lock_is_awaited, echo, engine, run_to_the_end
from tests.support import wait_until


def reject(claimed: Delivery) -> Outcome:
    return Failed(ErrorInfo(message=f"bad {claimed.message.stage}", type="ValueError", cause=Cause.REJECTED))


def dead(broker: Broker, steps: Steps, *jobs: Job) -> list[DeadLetter]:
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, reject)
    return list(DeadLetter.objects.filter(task__job__in=jobs).order_by("id"))


def test_a_replayed_job_runs_to_its_end_with_what_was_skipped(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a", c="b")
    [dead_letter] = dead(broker, steps, job)
    assert make.statuses(job) == {"a": "dead_letter", "b": "skipped", "c": "skipped"}
    [outcome] = replay([dead_letter.id], timezone.now())
    assert outcome == Replayed(dead_letter.id, Replay.REPLAYED, dead_letter.task_id, 2)
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    job.refresh_from_db()
    assert (job.status, job.error) == ("completed", "")
    assert set(make.statuses(job).values()) == {"completed"}
    dead_letter.refresh_from_db()
    assert (dead_letter.replayed_attempt, dead_letter.attempt) == (2, 1)
    trail = Task.objects.get(job=job, stage="a").events.order_by("id").values_list("transition", flat=True)
    assert list(trail) == ["make_ready", "enqueue", "start", "dead_letter", "replay", "enqueue", "start", "complete"]


def test_a_second_replay_of_the_same_dead_letter_changes_nothing(broker: Broker, steps: Steps) -> None:
    task = make.single()
    [dead_letter] = dead(broker, steps, task.job)
    replay([dead_letter.id], timezone.now())
    [again] = replay([dead_letter.id], timezone.now())
    assert again == Replayed(dead_letter.id, Replay.ALREADY, task.id, 2)
    with engine(broker) as consumer:
        assert run_to_the_end(steps, consumer) == 1


def test_new_parameters_and_priority_reach_the_engine_and_budgets_are_fresh(broker: Broker, steps: Steps) -> None:
    task = make.single(parameters={"a": 1}, priority="low")
    [dead_letter] = dead(broker, steps, task.job)
    Task.objects.filter(id=task.id).update(retry_count=2)
    replay([dead_letter.id], timezone.now(), parameters={"a": 2}, priority=Priority.HIGH)
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.result["parameters"], task.priority, task.retry_count) == ({"a": 2}, "high", 0)


@pytest.mark.parametrize("many", [False, True])
def test_new_parameters_name_no_artifact_of_another_project(broker: Broker, steps: Steps, many: bool) -> None:
    [dead_letter] = dead(broker, steps, make.single().job)
    theirs, ref = Project.objects.create(name="theirs"), f"sha256:{'a' * 64}"
    JobArtifact.objects.create(project=theirs, ref=ref, kind="upload")
    again = partial(create_replay_batch, actor="a") if many else partial(replay, now=timezone.now())
    with pytest.raises(InvalidJob, match="no job of this project has the artifact"):
        again([dead_letter.id], parameters={"audio": ref})


def test_a_task_that_dies_again_is_a_second_dead_letter_with_a_higher_attempt(broker: Broker, steps: Steps) -> None:
    task = make.single()
    [first] = dead(broker, steps, task.job)
    replay([first.id], timezone.now())
    [_, second] = dead(broker, steps, task.job)
    assert (second.attempt, second.replayed_at) == (2, None)
    [outcome] = replay([second.id], timezone.now())
    assert outcome.attempt == 3
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)


def test_all_that_match_a_filter_are_counted_and_replayed(broker: Broker, steps: Steps) -> None:
    jobs = [make.dag(a=""), make.dag(a=""), make.dag(b="")]
    dead_letters = dead(broker, steps, *jobs)
    wanted = Filter(queue="echo", error_contains="bad a")
    assert matching(wanted).count() == 2
    outcomes = replay(list(matching(wanted).values_list("id", flat=True)), timezone.now())
    assert [outcome.outcome for outcome in outcomes] == [Replay.REPLAYED, Replay.REPLAYED]
    assert matching(wanted).count() == 0
    assert matching(Filter(fingerprint=dead_letters[2].fingerprint)).count() == 1
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)


def test_two_dead_stages_of_one_job_are_replayed_together(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="")
    dead_letters = dead(broker, steps, job)
    assert len(dead_letters) == 2
    replay([dead_letters[0].id], timezone.now())
    assert not matching(Filter()).exists()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    job.refresh_from_db()
    assert job.status == "completed"


def test_while_siblings_are_still_being_stopped_a_replay_is_refused(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="")
    steps.poll()
    with engine(broker) as consumer:
        claimed = {task.message.stage: task for task in consumer.claim()}
        claimed["a"].settle(reject(claimed["a"]))
        steps.drain()
        dead_letter = DeadLetter.objects.get(task__job=job)
        [outcome] = replay([dead_letter.id], timezone.now())
        assert outcome.outcome is Replay.STOPPING
        claimed["b"].settle(Completed(1))
        steps.drain()
        [outcome] = replay([dead_letter.id], timezone.now())
        assert outcome.outcome is Replay.REPLAYED
        run_to_the_end(steps, consumer, echo)
    job.refresh_from_db()
    assert job.status == "completed"


@pytest.mark.django_db
def test_a_dead_letter_that_cannot_be_replayed_says_why() -> None:
    raw = DeadLetter.objects.create(queue="echo", cause="rejected", fingerprint="f", created_at=timezone.now())
    missing = uuid4()
    outcomes = [answer.outcome for answer in replay([missing, raw.id], timezone.now())]
    assert outcomes == [Replay.GONE, Replay.UNREADABLE]
    assert discard([raw.id], timezone.now()) == 1
    assert discard([raw.id], timezone.now()) == 0
    assert replay([raw.id], timezone.now())[0].outcome is Replay.DISCARDED


@pytest.mark.parametrize("first", ["discard", "replay"])
def test_of_a_replay_and_a_discard_at_once_the_first_wins_and_the_other_learns_it(
    broker: Broker, steps: Steps, first: str
) -> None:
    task = make.single()
    [dead_letter] = dead(broker, steps, task.job)
    outcomes: dict[str, Any] = {}

    def press(name: str) -> None:
        if name == "discard":
            outcomes[name] = discard([dead_letter.id], timezone.now())
        else:
            [outcomes[name]] = [done.outcome for done in replay([dead_letter.id], timezone.now())]

    def press_late() -> None:
        press("replay" if first == "discard" else "discard")
        connections.close_all()

    late = Thread(target=press_late)
    with transaction.atomic():
        press(first)
        late.start()
        wait_until(a_lock_is_awaited, what="the later one waits for the first")
    late.join()
    dead_letter.refresh_from_db()
    task.refresh_from_db()
    if first == "discard":
        assert outcomes == {"discard": 1, "replay": Replay.DISCARDED}
        assert (dead_letter.replayed_at, task.status) == (None, "dead_letter")
    else:
        assert outcomes == {"replay": Replay.REPLAYED, "discard": 0}
        assert (dead_letter.discarded_at, task.status) == (None, "ready")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
