"""Many orchestrators refill the same windows while some of them are killed: nothing is queued or run twice, windows
stay short, limits hold at every moment, and everything completes."""

import itertools
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.jobs.order.window import ROUNDS, STARTS
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import Job, Limit, Project, Task, TaskEvent
from dalston_queue.orchestrator.duties.reconciler import reconcile
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, echo, engine, run_to_the_end
from tests.support import Spawned, wait_until

pytestmark = pytest.mark.keeps_keys
SLOTS = 8
LIMIT = 3
# The engine of this test does not beat: it would be taken for dead, and its tasks would run twice.
PATIENT = {"DALSTON_DEAD_AFTER_S": "600"}
STEPS = (
    "refill.locked",
    "dispatch.before_append",
    "dispatch.appended",
    "dispatch.queued",
    "refill.committed",
    "events.read:task.completed",
    "events.committed:task.started",
    "events.committed:task.completed",
    "events.acknowledged:task.completed",
)

IN_FLIGHT = "SELECT project_id, count(*) FROM dalston_task WHERE status IN ('queued', 'running') GROUP BY project_id"
IN_WINDOWS = "SELECT coalesce(sum(queued), 0) FROM dalston_depth"
STARTED = "SELECT count(*) FROM dalston_task WHERE started_at IS NOT NULL"


def rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


class Watched:
    """An engine that goes on when all its starts are applied: so a batch has at most as many starts as it has slots,
    and a window has a greatest length. Each step is checked."""

    def __init__(self, consumer: Consumer, limited: Project) -> None:
        self.consumer, self.limited = consumer, limited
        self.claimed: Counter[tuple[str, int]] = Counter()
        self.longest = 0

    def work(self, total: int, meanwhile: Callable[[int], None]) -> None:
        while self.claimed.total() < total:
            wait_until(self._claim, 60, lambda: f"{self.claimed.total()} of {total} tasks were claimed")
            wait_until(lambda: rows(STARTED) == [(self.claimed.total(),)], 60, "the starts are applied")
            self.check()
            self.consumer.exchange([(task, echo(task)) for task in self.consumer.held], free=0)
            meanwhile(self.claimed.total())

    def _claim(self) -> list[Delivery]:
        claimed = self.consumer.claim()
        self.claimed.update((task.task_id, task.message.attempt) for task in claimed)
        self.check()
        return claimed

    def check(self) -> None:
        in_flight: dict[Any, int] = dict(rows(IN_FLIGHT))
        assert in_flight.get(self.limited.pk, 0) <= LIMIT, in_flight
        held = {task.task_id for task in self.consumer.held}
        assert Task.objects.filter(pk__in=held, project=self.limited).count() <= LIMIT
        [(queued,)] = rows(IN_WINDOWS)
        self.longest = max(self.longest, queued)


def submit(count: int, project: Project) -> None:
    submit_many([Request(single_task("echo")) for _ in range(count)], project=project)


def is_up(process: Spawned) -> bool:
    return "orchestrator ready" in process.output or not process.running()


def killed(process: Spawned) -> None:
    assert process.wait(60) == -signal.SIGKILL, process.output


@pytest.mark.parametrize(
    ("count", "tasks", "points"),
    [
        (2, 72, ("dispatch.appended",)),
        pytest.param(2, 300, STEPS, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(4, 300, STEPS, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(8, 300, STEPS, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_orchestrators_that_refill_at_once_and_are_killed_queue_nothing_twice_and_keep_limits(
    count: int, tasks: int, points: tuple[str, ...], orchestrators: Orchestrators, broker: Broker
) -> None:
    free, limited, other = (make.project(name) for name in ("free", "limited", "other"))
    Limit.objects.create(queue="echo", project=limited, max_in_flight=LIMIT)
    for project in (free, limited, other):
        submit(tasks // 3, project)
    broker.registry.beat_engine(
        EngineBeat(engine_id="lone.demo.0.boot", state=EngineState.READY, queues=("echo",), capacity=SLOTS)
    )
    processes = [orchestrators.start(ready=False, **PATIENT) for _ in range(count)]
    for process in processes:
        process.wait_for("orchestrator ready", 60)
    wait_until(lambda: not Job.objects.filter(status="pending").exists(), 60, "all jobs are claimed")
    wait_until(lambda: rows(IN_WINDOWS) == [(ROUNDS * SLOTS,)], what="the window is full")

    doomed: list[Spawned] = []
    waiting = iter(points)

    def kill_some(claimed: int) -> None:
        """One at each step, over the run."""
        while claimed >= tasks * (len(doomed) + 1) // (len(points) + 2) and (point := next(waiting, None)):
            process = orchestrators.start(ready=False, DALSTON_FAULT=point, **PATIENT)
            doomed.append(process)
            wait_until(partial(is_up, process), 60)

    with engine(broker, "echo", capacity=SLOTS) as consumer:
        watched = Watched(consumer, limited)
        watched.work(tasks, kill_some)
        # What a process needs to reach its point has perhaps been taken by others: it gets some more.
        for more in itertools.count():
            if not any(process.running() for process in doomed):
                break
            assert more < 50, [process.output for process in doomed if process.running()]
            submit(SLOTS, other)
            tasks += SLOTS
            watched.work(tasks, lambda _: None)
        wait_until(lambda: Task.objects.filter(status="completed").count() == tasks, 60, "everything is completed")
        # Others take over the events that a killed process has committed and not acknowledged.
        ids = [task for task, _ in watched.claimed]
        wait_until(lambda: not broker.records("echo", ids), what="no record is left")
    for process in doomed:
        killed(process)
    for process in processes:
        assert process.stop() == 0
        assert "deadlock" not in process.output
    assert set(watched.claimed.values()) == {1}, "each attempt was claimed once"
    assert Task.objects.filter(attempt=1).count() == tasks
    assert TaskEvent.objects.filter(transition="enqueue").count() <= tasks
    assert TaskEvent.objects.filter(transition="complete").count() == tasks
    assert not TaskEvent.objects.filter(transition="rebuild").exists()
    assert watched.longest <= STARTS * SLOTS
    print(f"{count} orchestrators, {len(doomed)} killed: the windows held {watched.longest} tasks at most")
    assert depths() == counted() == []


PROMOTE = (
    "from datetime import timedelta; from django.utils import timezone;"
    "from dalston_queue.jobs.order.ageing import promote_aged;"
    "promote_aged(timezone.now() + timedelta(minutes=10))"
)
REFILL = (
    "from django.utils import timezone;from dalston_queue.jobs.order.refill import refill;refill(None, timezone.now())"
)


@pytest.mark.parametrize("code", [PROMOTE, pytest.param(REFILL, marks=pytest.mark.slow)], ids=["promotion", "refill"])
def test_what_is_killed_after_the_withdrawal_is_completed_by_the_reconciler(
    code: str, orchestrators: Orchestrators, broker: Broker, steps: Steps
) -> None:
    """A refill withdraws what a limit holds for tasks of high priority."""
    tasks = [make.single(priority="low") for _ in range(3)]
    steps.poll()
    if code == REFILL:
        Limit.objects.create(project=make.project(), max_in_flight=3)
        make.claim(*[make.single(priority="high").job for _ in range(3)])
    killed(orchestrators.command("shell", "-c", code, DALSTON_FAULT="withdrawal.removed"))
    low = Task.objects.filter(priority="low")
    assert list(low.values_list("status", "effective_priority")) == [("queued", "low")] * 3
    assert not broker.records("echo", [str(task.id) for task in tasks])
    reconcile()
    with engine(broker, "echo") as consumer:
        run_to_the_end(steps, consumer)
    assert list(low.values_list("status", "attempt")) == [("completed", 2)] * 3
    assert set(Task.objects.values_list("status", flat=True)) == {"completed"}
