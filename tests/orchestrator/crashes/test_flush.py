"""FLUSHALL under a running system: the orchestrators notice it, and work goes on, under new attempts."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import redis
from django.db import connection
from django.db.models import Count

from bench.harness.ready_tasks import add_ready
from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed, Outcome
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import DeadLetter, Job, Task, TaskEvent
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import keeps_time, wait_until

pytestmark = pytest.mark.keeps_keys
JOBS = 300
STAGES = (StageSpec(stage="a", queue="echo"), StageSpec(stage="b", queue="echo", after=("a",)))
WAITING, RUNNING = 100_000, 200
FLOWS_AGAIN_S = 10


@pytest.fixture
def lose_all(redis_url: str, prefix: str) -> Callable[[], None]:
    """FLUSHALL, of this test's keys."""

    def lose() -> None:
        with redis.Redis.from_url(redis_url) as client:
            client.delete(*client.scan_iter(f"{prefix}:*", count=10_000))

    return lose


def completed_twice() -> int:
    completions = TaskEvent.objects.filter(transition="complete").values("task_id").annotate(times=Count("id"))
    return completions.filter(times__gt=1).count()


def test_a_running_system_that_loses_all_of_redis_finishes_every_job(
    orchestrators: Orchestrators, broker: Broker, lose_all: Callable[[], None]
) -> None:
    orchestrator = orchestrators.start()
    with working_engine(broker):
        submit_many([Request(JobSpec(name="flush", stages=STAGES)) for _ in range(JOBS)], project=make.project())
        wait_until(lambda: Task.objects.filter(status="completed").count() > 50, what="work has begun")
        lose_all()
        T=time.monotonic(); N=Task.objects.filter(status="completed").count()
        wait_until(lambda: Task.objects.filter(status="completed").count()>N+50); print("XX again", N, time.monotonic()-T)
        wait_until(lambda: Job.objects.filter(status="completed").count() == JOBS, 60, "all jobs are completed")
    assert not DeadLetter.objects.exists()
    assert not completed_twice()
    assert depths() == counted() == []
    print("XX",time.monotonic()-T,orchestrator.output)
    assert orchestrator.stop() == 0


@dataclass
class Crowd:
    """An engine with many slots. It holds what it has claimed until it may go on."""

    consumer: Consumer
    go_on: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    claimed: list[Delivery] = field(default_factory=list)

    def run(self) -> None:
        self.consumer.open()
        while not self.stop.is_set():
            settlements: list[tuple[Delivery, Outcome]] = []
            if self.go_on.is_set():
                settlements = [(task, Completed({})) for task in self.consumer.held]
            try:
                claimed = self.consumer.exchange(settlements).claimed
                self.claimed += claimed
                if not claimed:
                    self.consumer.renew_all()  # an engine learns by it that its session is gone
                    self.consumer.wait(0.1)
            except Fenced:
                self.consumer.open()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_work_flows_again_within_ten_seconds_however_many_wait(
    orchestrators: Orchestrators, broker: Broker, lose_all: Callable[[], None]
) -> None:
    add_ready(WAITING, [make.project(name).pk for name in ("a", "b", "c")], keys=10)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE dalston_job, dalston_task")
    beat = EngineBeat(engine_id="lone.demo.0.boot", state=EngineState.READY, queues=("echo",), capacity=RUNNING)
    broker.registry.beat_engine(beat)
    processes = [orchestrators.start(DALSTON_DEAD_AFTER_S="60") for _ in range(2)]
    crowd = Crowd(Consumer(broker, beat.engine_id, ["echo"], capacity=RUNNING))
    thread = threading.Thread(target=crowd.run)
    thread.start()

    def lost() -> float:
        running = Task.objects.filter(status="running")
        wait_until(lambda: running.count() == RUNNING, 60, lambda: f"{running.count()} run")
        before = set(running.values_list("pk", "attempt"))
        lose_all()
        begun = time.monotonic()
        crowd.claimed.clear()
        wait_until(lambda: len(crowd.claimed) >= RUNNING, 60, lambda: f"{len(crowd.claimed)} were claimed again")
        took = time.monotonic() - begun
        print(f"{RUNNING} of {WAITING} tasks run again {took:.1f} s after all was lost")
        broker.registry.beat_engine(beat)
        after = dict(Task.objects.filter(pk__in=[task for task, _ in before]).values_list("pk", "attempt"))
        assert all(after[task] == attempt + 1 for task, attempt in before)
        return took

    try:
        keeps_time(FLOWS_AGAIN_S, lost)
        crowd.go_on.set()
        done = Task.objects.filter(status="completed")
        wait_until(lambda: done.count() > 10 * RUNNING, 60, lambda: f"{done.count()} are completed")
    finally:
        crowd.stop.set()
        thread.join()
        crowd.consumer.close()
    for process in processes:
        assert process.stop() == 0
    assert Task.objects.count() == WAITING
    assert not Task.objects.exclude(status__in=["ready", "queued", "running", "completed"]).exists()
    assert not completed_twice()
    assert not DeadLetter.objects.exists()
    by_lane = {each.lane_tier: each for each in counted()}
    assert {each.lane_tier: each for each in depths()} == by_lane
