"""Large jobs: they are built and advanced in chunks, and between projects in turn."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Event
from dalston_queue.broker.protocol.types import EventKind
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import Request, submit, submit_many
from dalston_queue.models import Job, Task
from dalston_queue.orchestrator import chunks, loop
from dalston_queue.orchestrator.chunks import Item, Weight, first_of, job_id_of, next_turn
from dalston_queue.orchestrator.inbox import SHARED_EVENTS, Inbox
from tests.jobs.make import claim, job_of, project, single
from tests.orchestrator.support import Steps, engine, run_to_the_end

LARGE = tuple(StageSpec(stage=f"s{number}", queue="large") for number in range(200))


def _event(job: UUID, kind: EventKind = EventKind.JOB_CREATED, task: str = "") -> Event:
    return Event(kind=kind, job_id=str(job), task_id=task)


@pytest.fixture
def thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_STAGES", 1000)


def _turns(batch: list[Event], weights: dict[str, Weight], max_events: int = 400) -> list[list[Item]]:
    """All parts, if nothing else comes."""
    parts: list[list[Item]] = []
    rest: list[Item] = [*batch]
    while rest:
        turn = next_turn(rest, weights, max_events)
        assert not turn.left
        parts.append(turn.part)
        rest = turn.rest
    return parts


@pytest.mark.usefixtures("thousand")
def test_each_project_has_its_turn_and_a_part_is_bounded() -> None:
    large, other = [uuid4() for _ in range(12)], uuid4()
    batch = [_event(job, EventKind.TASK_COMPLETED) for job in (*large, other)]
    weights = {str(job): Weight("attacker", 199) for job in large} | {str(other): Weight("other", 1)}
    parts = _turns(batch, weights)
    assert parts[0][:2] == [batch[0], batch[-1]]
    assert [len(part) for part in parts] == [6, 5, 2]
    assert sorted(job_id_of(event) for part in parts for event in part) == sorted(event.job_id for event in batch)


def test_a_part_has_at_most_so_many_events_and_those_of_a_task_in_order() -> None:
    jobs = [uuid4() for _ in range(2)]
    kinds = (EventKind.TASK_STARTED, EventKind.TASK_COMPLETED)
    batch = [_event(job, kind, f"{job} {task}") for kind in kinds for job in jobs for task in range(10)]
    weights = {str(job): Weight(str(job)) for job in jobs}
    parts = _turns(batch, weights, max_events=8)
    assert [len(part) for part in parts] == [8] * 5
    for part in parts:
        assert [event.kind for event in part if isinstance(event, Event)] == [*kinds] * 4
        assert len({job_id_of(event) for event in part}) == 2


def test_the_events_of_a_task_stay_together_and_in_order() -> None:
    jobs = [uuid4() for _ in range(4)]
    batch = [_event(job, kind) for kind in (EventKind.TASK_STARTED, EventKind.TASK_COMPLETED) for job in jobs]
    parts = _turns(batch, {str(job): Weight("", 900) for job in jobs})
    assert [[event.kind for event in part if isinstance(event, Event)] for part in parts] == [
        [EventKind.TASK_STARTED, EventKind.TASK_COMPLETED]
    ] * 4


@pytest.mark.usefixtures("thousand")
def test_hints_beyond_the_part_are_left_to_the_poll() -> None:
    batch = [_event(uuid4()) for _ in range(20)]
    part, rest, left = next_turn(batch, {event.job_id: Weight("", 200) for event in batch}, 400)
    assert (len(part), rest, len(left)) == (5, [], 15)


@pytest.mark.usefixtures("thousand")
def test_an_ordinary_batch_is_one_part() -> None:
    batch = [_event(uuid4()) for _ in range(400)]
    assert _turns(batch, {event.job_id: Weight("", 2) for event in batch}) == [batch]


@pytest.mark.django_db
def test_a_project_with_few_events_goes_before_one_with_many() -> None:
    large, echo = submit(JobSpec(name="large", stages=LARGE), project=project("attacker")), single()
    hint = Event(kind=EventKind.JOB_CREATED, job_id=str(echo.job_id), stream="jobs", entry_id="9-1")
    many: list[Item] = [
        Event(kind=EventKind.TASK_STARTED, job_id=str(large.job_id), task_id=f"{number}", entry_id=f"{number}-1")
        for number in range(200)
    ]
    inbox = Inbox(400)
    inbox.add(many)
    assert not inbox.is_shared
    assert inbox.light_turn() == []
    inbox.add([many[0], hint])
    assert inbox.is_shared
    assert inbox.light_turn() == [hint]
    assert [len(inbox.turn().part) for _ in range(2)] == [SHARED_EVENTS, SHARED_EVENTS]
    assert not inbox, "what was read twice is here once"
    inbox.add([hint])
    assert inbox.turn().part == [hint]


@pytest.mark.keeps_keys
@pytest.mark.django_db(transaction=True)
def test_a_project_without_entries_gets_one_in_a_window_that_is_full(broker: Broker) -> None:
    submit(JobSpec(name="large", stages=LARGE), project=project("attacker"))
    now = timezone.now()
    while loop.poll():
        pass
    started = {("large", "medium"): 5}
    assert refill({"large"}, now, started) + Task.objects.filter(status="queued").count() >= 20
    before = Task.objects.filter(status="queued").count()
    echo = submit(single_task("large"), project=project("other"))
    claim(Job.objects.get(id=echo.job_id))
    assert refill({"large"}, now, started) == 0
    assert refill({"large"}, now, started, eager=1) == 1
    assert Task.objects.get(job_id=echo.job_id).status == "queued"
    assert Task.objects.filter(status="queued").count() == before + 1
    while refill({"large"}, now, started, eager=1):
        pass
    assert Task.objects.filter(status="queued").count() == 30, "half more than the window, and no more"


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
