"""/scale: what an autoscaler reads is exact, never null, and of the tasks that a new node could run."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.operator.pause import pause
from dalston_queue.jobs.queries.lanes import read_ready
from tests.api.conftest import Api
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end

ZERO = {"demand": 0, "waiting": 0, "running": 0, "oldest_age_seconds": 0.0}


@pytest.fixture
def steps(broker: Broker) -> Steps:
    return Steps(broker)


def numbers(api: Api, query: str = "") -> tuple[int, int, int]:
    found = api.get(f"/scale{query}").json()
    assert isinstance(found["oldest_age_seconds"], float)
    assert (found["oldest_age_seconds"] > 0) == any(lane["waiting"] and not lane["paused"] for lane in found["lanes"])
    return found["demand"], found["waiting"], found["running"]


def test_without_work_all_is_zero_also_of_a_queue_that_is_not_used_yet(api: Api) -> None:
    assert api.get("/scale").json() == {**ZERO, "lanes": [], "more_queues": 0}
    assert api.get("/scale?queue=nosuch&capabilities=gpu").json() == {**ZERO, "lanes": [], "more_queues": 0}


def test_demand_is_what_waits_anywhere_and_what_runs(
    api: Api, broker: Broker, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_WINDOW = 2
    for _ in range(6):
        make.single()
    steps.poll()
    assert read_ready(["echo"]), "some wait in Postgres, two in the window"
    assert numbers(api) == (6, 6, 0)
    with engine(broker, capacity=1) as consumer:
        assert len(consumer.claim()) == 1
        assert numbers(api, "?queue=echo") == (6, 5, 1), "a busy slot is still wanted"
        consumer.release()
        run_to_the_end(steps, consumer)
    assert numbers(api) == (0, 0, 0)


def test_the_lanes_are_those_that_engines_with_these_capabilities_can_run(api: Api, steps: Steps) -> None:
    for needed in ((), (), ("gpu",), ("cuda", "gpu")):
        make.single("transcribe", required_capabilities=needed)
    make.single()
    steps.poll()
    for query, demand in {
        "": 5,
        "?queue=transcribe": 4,
        "?queue=transcribe&capabilities=": 2,
        "?queue=transcribe&capabilities=gpu": 3,
        "?queue=transcribe&capabilities=gpu%2Bcuda": 4,
        "?queue=transcribe&capabilities=cuda": 2,
        "?capabilities=": 3,
    }.items():
        assert numbers(api, query)[0] == demand, query
    lanes = api.get("/scale?queue=transcribe").json()["lanes"]
    assert [(lane["capabilities"], lane["demand"]) for lane in lanes] == [([], 2), (["cuda", "gpu"], 1), (["gpu"], 1)]


def test_a_paused_queue_wants_no_node(api: Api, steps: Steps) -> None:
    make.single()
    steps.poll()
    pause("echo", timezone.now(), actor="me", reason="")
    found = api.get("/scale").json()
    assert (found["demand"], found["waiting"], found["oldest_age_seconds"]) == (0, 1, 0.0)
    assert found["lanes"][0]["paused"]


def test_of_many_queues_the_busiest_are_shown_and_each_can_be_asked_for(
    api: Api, steps: Steps, settings: Settings
) -> None:
    settings.DALSTON_SHOWN_QUEUES = 1
    for queue, count in {"echo": 1, "sleep": 2}.items():
        for _ in range(count):
            make.single(queue)
    steps.poll()
    found = api.get("/scale").json()
    assert ([lane["queue"] for lane in found["lanes"]], found["demand"], found["more_queues"]) == (["sleep"], 2, 1)
    assert numbers(api, "?queue=echo") == (1, 1, 0)


@pytest.mark.parametrize("query", ["queue=UPPER", "queue=", "capabilities=gpu%2B", "capabilities=a,b", "queues=echo"])
def test_a_wrong_name_is_refused(api: Api, query: str) -> None:
    assert api.get(f"/scale?{query}").status_code in (400, 422)


def test_it_costs_the_same_whatever_waits(api: Api, steps: Steps) -> None:
    statements = []
    for count in (1, 1, 50):  # the first request also notes that the token was used
        for _ in range(count):
            make.single("transcribe", required_capabilities=("gpu",) if count > 1 else ())
        steps.poll()
        with CaptureQueriesContext(connection) as captured:
            api.get("/scale?queue=transcribe")
        statements.append(len(captured))
    assert statements[1] == statements[2]
