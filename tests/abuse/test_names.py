"""Names that clients invent: queues and combinations of capabilities are limited per project and in all."""

from __future__ import annotations

from uuid import UUID

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.errors import JobsError, TooManyNames
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.submit import lanes
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import Request, Submission, submit, submit_many
from dalston_queue.models import DeadLetter, Lane, Task
from tests.jobs.make import NOW, claim, project, single

pytestmark = pytest.mark.django_db


def _needs(*capabilities: str, queue: str = "echo", of: str = "attacker") -> Submission:
    return submit(single_task(queue, required_capabilities=capabilities), project=project(of))


def test_a_project_adds_so_many_combinations_and_hurts_no_lane_that_there_is(
    broker: Broker, settings: Settings
) -> None:
    settings.DALSTON_MAX_LANES_PER_PROJECT = 3
    _needs("gpu", of="other")
    for number in range(3):
        _needs(f"cap{number}")
    with pytest.raises(TooManyNames, match="more than 3 combinations of required_capabilities in the queue echo"):
        _needs("cap3")
    assert _needs("cap2").created, "its own lanes are still there"
    assert _needs().created, "and the plain one"
    assert _needs("gpu").created, "and that of another project"
    assert _needs("cpu", of="other").created, "another project has its own room"


def test_a_full_queue_refuses_the_new_combination_of_any_project(broker: Broker) -> None:
    for number in range(31):
        _needs(f"cap{number}", of=f"project-{number % 2}")
    with pytest.raises(TooManyNames, match="the queue echo has 31 combinations"):
        _needs("other", of="other")
    assert _needs("cap0", of="other").created
    assert _needs(of="other").created
    assert _needs("other", queue="upper", of="other").created, "other queues have their own"


@pytest.mark.keeps_keys
def test_a_full_registry_in_redis_makes_no_dead_letter(broker: Broker) -> None:
    """The attack of before: every task of the queue, of any project, was a dead letter at once."""
    tasks = [Task.objects.get(id=_needs(f"cap{number}", of=f"p{number % 3}").task_ids[0]) for number in range(31)]
    Lane.objects.all().delete()  # forgotten while its tasks waited, so that Redis gets one more than it takes
    lanes.forget()
    tasks += [Task.objects.get(id=_needs("one-more").task_ids[0]), single("echo")]
    claim(*(task.job for task in tasks))
    refill(None, NOW)
    assert not DeadLetter.objects.exists()
    statuses = {task.lane: task.status for task in Task.objects.all()}
    assert statuses["echo"] == "queued", "the plain lane always has room"
    assert list(statuses.values()).count("ready") == 1, "one lane waits for another one to be empty"
    broker.remove("echo", str(tasks[0].id))
    refill(None, NOW)
    assert not Task.objects.filter(status="ready").exists()


def test_a_project_is_the_first_to_use_so_many_queues(broker: Broker, settings: Settings) -> None:
    settings.DALSTON_MAX_QUEUES_PER_PROJECT = 2
    settings.DALSTON_MAX_QUEUES = 4
    for number in range(2):
        _needs(queue=f"q{number}")
    with pytest.raises(TooManyNames, match="the queue q2 would be one more than the 2 that a project"):
        _needs(queue="q2")
    _needs(queue="a", of="other")
    _needs(queue="a")
    _needs(queue="b", of="other")
    with pytest.raises(TooManyNames, match="one more than the 4 of this installation"):
        _needs(queue="c", of="third")
    _needs(queue="q0", of="third")


def test_each_job_of_a_batch_is_refused_for_itself_and_adds_all_of_its_names_or_none(
    broker: Broker, settings: Settings
) -> None:
    settings.DALSTON_MAX_QUEUES_PER_PROJECT = 3

    def job(*queues: str) -> Request:
        stages = tuple(StageSpec(stage=f"s-{queue}", queue=queue) for queue in queues)
        return Request(JobSpec(name="job", stages=stages))

    outcomes = submit_many([job("a", "b"), job("c", "d"), job("c"), job("e"), job("a")], project=project("attacker"))
    assert [isinstance(each, JobsError) for each in outcomes] == [False, True, False, True, False]
    assert set(Lane.objects.values_list("name", flat=True)) == {"a", "b", "c"}
    assert set(Task.objects.values_list("queue", flat=True)) == {"a", "b", "c"}


def test_the_fantasy_of_a_result_is_limited_too(broker: Broker, settings: Settings) -> None:
    from dalston_queue.orchestrator.apply import added_tasks

    settings.DALSTON_MAX_QUEUES_PER_PROJECT = 2
    task = single("echo")
    wanted = [StageSpec(stage=f"s{number}", queue=f"q{number}") for number in range(2)]
    with pytest.raises(TooManyNames):
        added_tasks(task.job_id, task.id, wanted)


def test_a_lane_in_use_costs_no_query(broker: Broker, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    _needs("gpu")
    assert lanes.register([{"echo@gpu", "echo"}], UUID(int=1)) == [None]
    with django_assert_num_queries(0):
        lanes.register([{"echo@gpu"}], UUID(int=1))
