"""Large jobs: they are built and advanced in chunks, and between projects in turn."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import connection

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.types import EventKind
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import Request, submit, submit_many
from dalston_queue.models import Job, Task
from dalston_queue.orchestrator import chunks, loop
from dalston_queue.orchestrator.chunks import chunked, first_of
from tests.jobs.make import claim, job_of, project, single
from tests.orchestrator.support import Steps, engine, run_to_the_end

LARGE = tuple(StageSpec(stage=f"s{number}", queue="large") for number in range(200))


def _event(job: UUID, kind: EventKind = EventKind.JOB_CREATED) -> Event:
    return Event(kind=kind, job_id=str(job))


@pytest.fixture
def thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_STAGES", 1000)


@pytest.mark.usefixtures("thousand")
def test_light_jobs_come_first_and_a_part_is_bounded() -> None:
    large, light = [uuid4() for _ in range(12)], uuid4()
    batch = [_event(job, EventKind.TASK_COMPLETED) for job in (*large, light)]
    weights = {str(job): 199 for job in large} | {str(light): 1}
    parts, left = chunked(batch, weights)
    assert parts[0][0] == batch[-1]
    assert [len(part) for part in parts] == [6, 5, 2]
    assert left == []
    assert sorted(event.job_id for part in parts for event in part) == sorted(event.job_id for event in batch)


def test_the_events_of_a_job_stay_together_and_in_order() -> None:
    jobs = [uuid4() for _ in range(4)]
    batch = [_event(job, kind) for kind in (EventKind.TASK_STARTED, EventKind.TASK_COMPLETED) for job in jobs]
    parts, _ = chunked(batch, {str(job): 900 for job in jobs})
    assert [[event.kind for event in part if isinstance(event, Event)] for part in parts] == [
        [EventKind.TASK_STARTED, EventKind.TASK_COMPLETED]
    ] * 4


@pytest.mark.usefixtures("thousand")
def test_hints_beyond_the_first_part_are_left_to_the_poll() -> None:
    batch = [_event(uuid4()) for _ in range(20)]
    parts, left = chunked(batch, {event.job_id: 200 for event in batch})
    assert (len(parts), len(parts[0]), len(left)) == (1, 5, 15)


@pytest.mark.usefixtures("thousand")
def test_an_ordinary_batch_is_one_part() -> None:
    batch = [_event(uuid4()) for _ in range(400)]
    assert chunked(batch, {event.job_id: 2 for event in batch}) == ([batch], [])


def test_a_poll_takes_at_least_one_job() -> None:
    jobs = [(uuid4(), 5000), (uuid4(), 1)]
    assert first_of(jobs) == [jobs[0][0]]


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_pending_jobs_are_claimed_from_each_project_in_turn(broker: Broker) -> None:
    many = submit_many([Request(JobSpec(name="large", stages=LARGE)) for _ in range(12)], project=project("attacker"))
    assert all(outcome.created for outcome in many)
    echo = submit(single_task("echo"), project=project("other"))
    with connection.cursor() as cursor:
        cursor.execute(loop.PENDING, {"count": 500})
        found = cursor.fetchall()
    assert echo.job_id in {job for job, _ in found[:2]}, "each project's first job comes before any second one"
    assert sum(weight for _, weight in found) == 12 * 200 + 1
    assert loop.poll()
    assert Job.objects.get(id=echo.job_id).status == "running"
    assert Task.objects.exclude(status="pending").count() <= chunks.MAX_STAGES + 1
    while loop.poll():
        pass
    assert not Task.objects.filter(status="pending").exists()


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_large_jobs_run_to_their_end_in_chunks(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_STAGES", 10)
    steps = Steps(broker)
    stages = (StageSpec(stage="root", queue="echo"), *(
        StageSpec(stage=f"s{number}", queue="echo", after=("root",)) for number in range(15)
    ))  # fmt: skip
    jobs = [job_of(*stages) for _ in range(3)]
    with engine(broker, capacity=8) as consumer:
        assert run_to_the_end(steps, consumer) == 48
    assert {Job.objects.get(id=job.id).status for job in jobs} == {"completed"}


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_what_waits_is_counted_by_project_whatever_it_waits_for(broker: Broker) -> None:
    single(of="a")
    job_of(StageSpec(stage="a", queue="echo"), StageSpec(stage="b", queue="other", after=("a",)))
    submit_many([Request(single_task("echo")), Request(single_task("echo"))], project=project("c"))
    for step in (lambda: None, lambda: claim(*Job.objects.all()), loop.poll, depth.compact):
        step()
        assert sorted(depth.waiting_by_project()) == sorted(depth.waiting_by_project(count=True))
    assert sum(row.pending for row in depth.waiting_by_project()) == 1
