"""A process is killed at a chosen moment; its jobs complete within 15 s of the start of another one."""

import os
import signal

import psutil
import pytest

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.models import Job, Task
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import Spawned, wait_until

pytestmark = pytest.mark.keeps_keys
HEALS_WITHIN_S = 15


def queued_job(orchestrators: Orchestrators) -> Job:
    """A job whose task is queued, after its orchestrator has stopped."""
    job = make.dag(a="")
    first = orchestrators.start()
    wait_until(lambda: Task.objects.get(job=job).status == "queued", what="the task is queued")
    first.stop()
    return job


def killed(process: Spawned) -> None:
    assert process.wait() == -signal.SIGKILL, process.output


def healed(job: Job, status: str = "completed") -> None:
    wait_until(lambda: Job.objects.get(id=job.id).status == status, HEALS_WITHIN_S, f"the job is {status}")
    for task in Task.objects.filter(job=job):
        assert task.events.filter(to_status="completed").count() == (status == "completed")


@pytest.mark.parametrize(
    "point",
    [
        "dispatch.appended",
        "events.committed:task.completed",
        pytest.param("dispatch.before_append", marks=pytest.mark.slow),
        pytest.param("events.read:job.created", marks=pytest.mark.slow),
        pytest.param("events.read:task.completed", marks=pytest.mark.slow),
        pytest.param("events.acknowledged:task.completed", marks=pytest.mark.slow),
    ],
)
def test_an_orchestrator_killed_between_two_steps_loses_nothing(
    point: str, orchestrators: Orchestrators, broker: Broker
) -> None:
    job = make.dag(a="", b="a", c="b")
    with working_engine(broker):
        doomed = orchestrators.start(ready=False, DALSTON_FAULT=point)
        killed(doomed)
        orchestrators.start()
        healed(job)
    assert set(Task.objects.filter(job=job).values_list("attempt", flat=True)) == {1}


def test_a_submitter_killed_after_its_commit_has_submitted(orchestrators: Orchestrators, broker: Broker) -> None:
    make.project()
    code = (
        "from dalston_queue.jobs.submit.spec import single_task; from dalston_queue.jobs.submit.submit import submit;"
        "from dalston_queue.models import Project;"
        "submit(single_task('echo'), project=Project.objects.get(name='tests'))"
    )
    killed(orchestrators.command("shell", "-c", code, DALSTON_FAULT="submit.committed"))
    with working_engine(broker):
        orchestrators.start()
        healed(Job.objects.get())


@pytest.mark.slow
def test_a_judge_killed_between_verdict_and_reclaim_is_followed_by_the_next(
    orchestrators: Orchestrators, broker: Broker
) -> None:
    dead = Consumer(broker, "lone.demo.0.dead", ["echo"])
    dead.open()
    broker.registry.beat_engine(EngineBeat(engine_id=dead.engine_id, state=EngineState.READY, queues=("echo",)))
    job = make.dag(a="")
    doomed = orchestrators.start(DALSTON_FAULT="recovery.condemned")
    wait_until(dead.claim, what="the engine claims")
    killed(doomed)
    with working_engine(broker):
        orchestrators.start()
        healed(job)
    assert Task.objects.get(job=job).node_losses == 1


@pytest.mark.slow
def test_a_cancel_killed_before_engines_were_asked_to_stop_is_completed_by_the_next(
    orchestrators: Orchestrators,
) -> None:
    job = queued_job(orchestrators)
    code = (
        "from uuid import UUID; from django.utils import timezone;"
        "from dalston_queue.jobs.operator.cancel import cancel_job;"
        f"cancel_job(UUID('{job.id}'), timezone.now())"
    )
    killed(orchestrators.command("shell", "-c", code, DALSTON_FAULT="cancel.committed"))
    assert Job.objects.get(id=job.id).status == "cancelling"
    orchestrators.start()
    healed(job, "cancelled")


@pytest.mark.slow
def test_a_reconciler_killed_after_it_rebuilt_a_task_has_rebuilt_it(
    orchestrators: Orchestrators, broker: Broker
) -> None:
    job = queued_job(orchestrators)
    broker.reset_queue("echo")
    killed(orchestrators.command("reconcile", DALSTON_FAULT="reconciler.rebuilt"))
    with working_engine(broker):
        orchestrators.start()
        healed(job)
    assert Task.objects.get(job=job).attempt == 2


def test_an_orchestrator_frozen_with_locks_does_not_hold_up_the_others(
    orchestrators: Orchestrators, broker: Broker
) -> None:
    job = make.dag(a="", b="a")
    with working_engine(broker):
        frozen = orchestrators.start(
            ready=False,
            DALSTON_FAULT="dispatch.appended",
            DALSTON_FAULT_SIGNAL="SIGSTOP",
            DALSTON_IDLE_TRANSACTION_S="2",
        )
        wait_until(lambda: psutil.Process(frozen.pid).status() == psutil.STATUS_STOPPED, what="it is frozen")
        orchestrators.start()
        healed(job)
        frozen.send(signal.SIGCONT)
        after = make.dag(a="")
        frozen.wait_for("orchestrator ready")
        healed(after)


def test_a_fault_point_that_is_not_named_does_nothing() -> None:
    from dalston_queue import crash_points

    assert "DALSTON_FAULT" not in os.environ
    crash_points.point("dispatch.appended")
