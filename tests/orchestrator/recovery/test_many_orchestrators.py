"""Several orchestrators on the same jobs: one DAG, one entry per dependent, no deadlock; in real processes."""

import pytest
from django.db import connection
from django.db.models import Count

from dalston_queue.broker import Broker
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import Job, Task, TaskEvent
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import wait_until

# Two parents that finish at about the same moment release one child.
STAGES = (
    StageSpec(stage="left", queue="echo"),
    StageSpec(stage="right", queue="echo"),
    StageSpec(stage="join", queue="echo", after=("left", "right")),
)


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


@pytest.mark.keeps_keys
@pytest.mark.parametrize("jobs", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_four_orchestrators_on_the_same_jobs_never_deadlock_and_do_everything_once(
    jobs: int, orchestrators: Orchestrators, broker: Broker
) -> None:
    before = deadlocks()
    # An engine of this test that gets no time for 1.5 s would be taken for dead, and its tasks would run twice.
    processes = [orchestrators.start(ready=False, DALSTON_DEAD_AFTER_S="30") for _ in range(4)]
    for process in processes:
        process.wait_for("orchestrator ready")
    requests = [Request(JobSpec(name="join", stages=STAGES)) for _ in range(jobs)]
    with working_engine(broker, name="lone.demo.0.a"), working_engine(broker, name="lone.demo.0.b"):
        submit_many(requests, project=make.project())
        wait_until(lambda: Job.objects.filter(status="completed").count() == jobs, 120, "all jobs are completed")
    for process in processes:
        assert process.stop() == 0
        assert "deadlock" not in process.output
        assert "does not answer" not in process.output
    assert deadlocks() == before
    assert Task.objects.filter(status="completed", attempt=1).count() == 3 * jobs
    moves = TaskEvent.objects.values("task_id", "transition").annotate(times=Count("id")).filter(times__gt=1)
    assert list(moves) == []
    assert TaskEvent.objects.filter(transition="enqueue").count() == 3 * jobs
