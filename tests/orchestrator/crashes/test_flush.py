"""FLUSHALL under a running system: with one run of the reconciler everything goes on, under new attempts."""

import pytest
import redis

from dalston_queue.broker import Broker
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import DeadLetter, Job, Task
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import wait_until

JOBS = 300
STAGES = (StageSpec(stage="a", queue="echo"), StageSpec(stage="b", queue="echo", after=("a",)))


@pytest.mark.keeps_keys
def test_a_running_system_that_loses_all_of_redis_finishes_every_job(
    orchestrators: Orchestrators, broker: Broker, redis_url: str, prefix: str
) -> None:
    orchestrator = orchestrators.start()
    with working_engine(broker), redis.Redis.from_url(redis_url) as client:
        submit_many([Request(JobSpec(name="flush", stages=STAGES)) for _ in range(JOBS)], project=make.project())
        wait_until(lambda: Task.objects.filter(status="completed").count() > 50, what="work has begun")
        client.delete(*client.scan_iter(f"{prefix}:*", count=10_000))

        def all_done() -> bool:
            reconcile()
            return Job.objects.filter(status="completed").count() == JOBS

        wait_until(all_done, 60, "all jobs are completed")
    assert not DeadLetter.objects.exists()
    assert orchestrator.running()
    assert orchestrator.stop() == 0
