"""Large inputs: a project fills its share of Redis, not Redis. The rest of its tasks wait in Postgres."""

from __future__ import annotations

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.messages import Completed
from dalston_queue.jobs.order.large import full_projects
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.queries.why import WhyCode, explain, facts_about
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import Limit, Project, Task
from tests.jobs.make import job_of, project, single
from tests.orchestrator.support import Steps, engine, run_to_the_end

pytestmark = [pytest.mark.keeps_keys, pytest.mark.django_db(transaction=True)]
BOUND = 200_000
LARGE = {"x": "a" * 50_000}


@pytest.fixture(autouse=True)
def bound(settings: Settings) -> None:
    settings.DALSTON_MAX_REDIS_BYTES = BOUND
    settings.DALSTON_WINDOW = 16  # so that only the bytes hold tasks back


def _bytes_in_redis(broker: Broker) -> int:
    """Of all streams of tasks, as Redis sees them."""
    client = broker.home.client
    return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(broker.home.keys.stream("*")))


@pytest.fixture(params=["without a limit", "within a limit"])
def limited(request: pytest.FixtureRequest) -> None:
    if request.param == "within a limit":
        Limit.objects.create(queue="q0", max_in_flight=100)


@pytest.mark.usefixtures("limited")
def test_a_project_with_large_inputs_fills_its_share_only_and_others_go_on(broker: Broker) -> None:
    steps = Steps(broker)
    for number in range(12):
        single("echo", of="attacker", queue=f"q{number % 4}", parameters=LARGE)
    for _ in range(3):
        steps.poll()
    attacker = Project.objects.get(name="attacker")
    taken = Task.objects.filter(project=attacker, status="queued").count()
    assert taken == 4, "the fourth one reaches the bound"
    assert _bytes_in_redis(broker) < BOUND + 60_000
    assert full_projects() == {attacker.pk}

    other = single("echo", of="other", queue="q0", parameters=LARGE)
    steps.poll()
    other.refresh_from_db()
    assert other.status == "queued", "in a lane where the attacker's older tasks wait"
    waits = Task.objects.filter(project=attacker, status="ready").first()
    assert waits
    why = explain(waits, facts_about(waits, broker), timezone.now())
    assert (why.code, "200,000 bytes in Redis" in why.sentence) == (WhyCode.LIMIT, True)


def test_the_rest_is_queued_when_some_are_over_and_small_inputs_do_not_count(broker: Broker) -> None:
    steps = Steps(broker)
    for _ in range(10):
        single("echo", of="attacker", parameters=LARGE)
    for _ in range(3):
        single("echo", of="small", parameters={"x": "a" * 8000})
    steps.poll()
    assert not set(Task.objects.filter(project__name="small").values_list("entry_bytes", flat=True)) - {0}
    with engine(broker, capacity=2) as consumer:
        assert run_to_the_end(steps, consumer) == 13
    assert full_projects() == frozenset()


def test_results_of_parents_count_as_inputs(broker: Broker) -> None:
    """A parent's result of 50 KB in each of its children."""
    steps = Steps(broker)
    stages = [StageSpec(stage="root", queue="echo")]
    stages += [StageSpec(stage=f"s{number}", queue="wide", after=("root",)) for number in range(30)]
    job_of(*stages)
    steps.poll()
    with engine(broker) as consumer:
        [root] = consumer.claim()
        root.settle(Completed({"x": "a" * 50_000}))
        steps.drain()
        for _ in range(3):
            steps.poll()
        assert Task.objects.filter(stage__startswith="s", status="queued").count() <= 4
        assert _bytes_in_redis(broker) < BOUND + 60_000


def test_one_entry_larger_than_the_bound_still_runs(broker: Broker, settings: Settings) -> None:
    settings.DALSTON_MAX_REDIS_BYTES = 10_000
    steps = Steps(broker)
    for _ in range(2):
        single("echo", parameters=LARGE)
    with engine(broker) as consumer:
        assert run_to_the_end(steps, consumer) == 2


def test_a_refill_reads_no_task_of_a_full_project(broker: Broker) -> None:
    """Nor their inputs: they would be read anew each second."""
    steps = Steps(broker)
    for _ in range(12):
        single("echo", of="attacker", parameters=LARGE)
    steps.poll()
    assert full_projects() == {project("attacker").pk}
    connection.force_debug_cursor = True
    try:
        connection.queries_log.clear()
        assert refill(None, timezone.now()) == 0
        assert not [query for query in connection.queries if "t.parameters" in query["sql"]]
    finally:
        connection.force_debug_cursor = False
