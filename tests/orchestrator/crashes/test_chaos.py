"""Orchestrators, housekeepers and engines are killed at random while DAGs run: everything completes, exactly once."""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

import pytest

from dalston_queue.broker import Broker
from dalston_queue.jobs.lifecycle.states import TASK_TRANSITIONS
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import DeadLetter, Job, Task, TaskEvent
from tests.jobs import make
from tests.orchestrator.crashes.chaos import Chaos
from tests.orchestrator.processes import FAST
from tests.support import Spawned, wait_until

pytestmark = pytest.mark.keeps_keys
STAGES = (
    StageSpec(stage="first", queue="echo"),
    StageSpec(stage="left", queue="echo", after=("first",)),
    # Takes a moment, so that a kill finds engines at work.
    StageSpec(stage="right", queue="sleep", after=("first",), parameters={"seconds": 0.1}),
    StageSpec(stage="join", queue="echo", after=("left", "right")),
    StageSpec(stage="last", queue="echo", after=("join",)),
)


@pytest.fixture
def chaos(spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, broker: Broker) -> Chaos:
    env = {**process_env, **FAST, "DATABASE_URL": database_url, "DALSTON_DEAD_AFTER_S": "2", "PYTHONPATH": "."}
    return Chaos(spawn, env, random.Random(33))


def submit_jobs(count: int) -> None:
    submit_many([Request(JobSpec(name="chaos", stages=STAGES)) for _ in range(count)], project=make.project())


def everything_completed_once(jobs: int) -> None:
    assert Job.objects.filter(status="completed").count() == jobs
    assert Task.objects.filter(status="completed").count() == 5 * jobs
    assert not DeadLetter.objects.exists()
    trails: dict[UUID, list[tuple[str, str, str]]] = defaultdict(list)
    for task, *move in TaskEvent.objects.order_by("id").values_list(
        "task_id", "transition", "from_status", "to_status"
    ):
        trails[task].append(tuple(move))  # type: ignore[arg-type]
    assert len(trails) == 5 * jobs
    for trail in trails.values():
        assert trail[0][1] == "pending"
        assert [move[2] for move in trail].count("completed") == 1
        assert trail[-1][2] == "completed"
        for name, source, target in trail:
            assert source in TASK_TRANSITIONS[name].sources
            assert target == TASK_TRANSITIONS[name].target
        assert all(before[2] == after[1] for before, after in itertools.pairwise(trail))


def completed(jobs: int) -> bool:
    return Job.objects.filter(status="completed").count() == jobs


def test_a_few_kills_in_a_fixed_order_lose_nothing(chaos: Chaos) -> None:
    chaos.start(orchestrator=2, engine=2)
    submit_jobs(20)
    wait_until(lambda: Task.objects.filter(status="completed").exists(), what="work has begun")
    chaos.run(4, lambda: submit_jobs(20))
    wait_until(lambda: completed(100), 60, "all jobs are completed")
    everything_completed_once(100)
    chaos.stop()


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_kill_each_second_for_a_minute_loses_nothing_and_does_nothing_twice(chaos: Chaos) -> None:
    chaos.start(orchestrator=2, huey=2, engine=4)
    wait_until(lambda: all("ready" in process.output for kind, process in chaos.alive if kind == "orchestrator"))
    submit_jobs(100)
    chaos.run(60, lambda: submit_jobs(15))
    wait_until(lambda: completed(1000), 180, "all jobs are completed")
    everything_completed_once(1000)
    assert sum(chaos.kills.values()) == 60
    print(f"killed: {chaos.kills}")
    chaos.stop()
