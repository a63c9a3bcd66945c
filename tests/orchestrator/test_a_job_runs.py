"""From submit to completed, in this process and with a real orchestrator process."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.models import DeadLetter, Job, Task
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, echo, engine, run_to_the_end, work
from tests.support import wait_until


def test_a_single_task_runs_and_its_result_is_kept(broker: Broker, steps: Steps) -> None:
    task = make.single(parameters={"text": "hello"})
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert (task.status, task.attempt, task.assigned_worker_id) == ("completed", 1, "node.demo.0.boot")
    assert task.result["parameters"] == {"text": "hello"}
    assert list(task.events.order_by("id").values_list("transition", flat=True)) == [
        "make_ready",
        "enqueue",
        "start",
        "complete",
    ]


def test_a_diamond_runs_in_order_and_results_reach_the_children(broker: Broker, steps: Steps) -> None:
    job = make.dag(a="", b="a", c="a", d="b c")
    order: list[str] = []

    def answer(claimed: Delivery) -> Outcome:
        order.append(claimed.message.stage)
        return Completed({"from": claimed.message.stage, "inputs": sorted(claimed.message.inputs)})

    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, answer)
    job.refresh_from_db()
    assert (job.status, job.progress) == ("completed", 1.0)
    assert (order[0], order[-1], len(order)) == ("a", "d", 4)
    assert Task.objects.get(job=job, stage="d").result == {"from": "d", "inputs": ["b", "c"]}


def test_a_failed_task_is_retried_after_its_backoff_and_then_a_dead_letter(broker: Broker, steps: Steps) -> None:
    task = make.single(max_retries=1)

    def fail(claimed: Delivery) -> Outcome:
        # With full jitter the delay may be almost 0, and the retry over before the test reads the row.
        return Failed(ErrorInfo(message="no such file", type="OSError", evidence={"log": ["line"]}, retry_after_s=3600))

    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, fail)
        task.refresh_from_db()
        assert (task.status, task.attempt, task.retry_count, task.error) == ("scheduled", 2, 1, "no such file")
        Task.objects.filter(id=task.id).update(scheduled_at=timezone.now() - timedelta(seconds=1))
        run_to_the_end(steps, consumer, fail)
    task.refresh_from_db()
    assert (task.status, task.job.status, task.job.error) == (
        "dead_letter",
        "failed",
        "stage echo: no such file (1 of 1 retries used)",
    )
    dead_letter = DeadLetter.objects.get(task=task)
    assert (dead_letter.attempt, dead_letter.cause, dead_letter.error_type, dead_letter.evidence) == (
        2,
        "error",
        "OSError",
        {"log": ["line"]},
    )
    assert (dead_letter.engine_id, dead_letter.project_id) == ("node.demo.0.boot", task.project_id)


def test_a_rejected_task_is_a_dead_letter_at_once(broker: Broker, steps: Steps) -> None:
    task = make.single()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, lambda _: Failed(ErrorInfo(message="bad input", cause=Cause.REJECTED)))
    task.refresh_from_db()
    assert (task.status, task.attempt, task.error_cause) == ("dead_letter", 1, "rejected")


def test_a_stage_may_ask_for_more_stages(broker: Broker, steps: Steps) -> None:
    job = make.job_of(StageSpec(stage="split", queue="echo"))

    def answer(claimed: Delivery) -> Outcome:
        if claimed.message.stage != "split":
            return echo(claimed)
        channels = [{"stage": f"echo_ch{n}", "after": ["split"], "parameters": {"channel": n}} for n in range(2)]
        merge = {"stage": "merge", "queue": "echo", "after": ["echo_ch0", "echo_ch1"]}
        return Completed({"$stages": [*channels, merge]})

    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, answer)
    job.refresh_from_db()
    assert job.status == "completed"
    assert make.statuses(job) == dict.fromkeys(("echo_ch0", "echo_ch1", "merge", "split"), "completed")
    assert set(Task.objects.get(job=job, stage="merge").result["inputs"]) == {"echo_ch0", "echo_ch1"}


def test_a_request_for_impossible_stages_is_a_dead_letter_that_says_why(broker: Broker, steps: Steps) -> None:
    task = make.single()
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, lambda _: Completed({"$stages": [{"stage": "x", "after": ["y"]}]}))
    task.refresh_from_db()
    assert task.status == "dead_letter"
    assert task.error == "its result asks for stages: the stage 'x' waits for 'y', which is no stage of this job"


def test_a_released_task_is_not_charged(broker: Broker, steps: Steps) -> None:
    task = make.single()
    with engine(broker) as consumer:
        steps.poll()
        consumer.claim()
        consumer.release()
        steps.drain()
        task.refresh_from_db()
        assert (task.status, task.attempt, task.deliveries, task.retry_count) == ("queued", 1, 0, 0)
        run_to_the_end(steps, consumer)
    task.refresh_from_db()
    assert task.status == "completed"


def test_an_entry_no_lane_can_hold_is_a_dead_letter_not_a_stuck_queue(broker: Broker, steps: Steps) -> None:
    wrong, right = make.single(), make.single()
    Task.objects.filter(id=wrong.id).update(required_capabilities=["no name"])  # as another program might
    steps.poll()
    assert "it can't be queued" in DeadLetter.objects.get(task=wrong).error
    with engine(broker) as consumer:
        assert [message.task_id for message in work(consumer)] == [str(right.id)]
    steps.drain()
    broker.reset_queue("echo")


@pytest.mark.keeps_keys
def test_a_real_orchestrator_process_completes_a_job(broker: Broker, orchestrators: Orchestrators) -> None:
    process = orchestrators.start(DALSTON_DEAD_AFTER_S="60")  # the engine of this test sends no heartbeat
    job = make.dag(a="", b="a", c="b")
    with engine(broker) as consumer:

        def done() -> bool:
            work(consumer)
            return Job.objects.get(id=job.id).status == "completed"

        wait_until(done, what="the job is completed")
    assert process.stop() == 0
    assert "orchestrator stopped" in process.output


def test_a_message_with_a_nul_character_is_stored_readable_and_the_task_is_retried(
    broker: Broker, steps: Steps
) -> None:
    task = make.single(max_retries=1)
    failed = Failed(ErrorInfo(message="bad\x00byte", evidence={"log": ["a\x00b"]}, retry_after_s=3600))
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer, lambda _: failed)
        task.refresh_from_db()
        assert (task.status, task.error) == ("scheduled", "bad\ufffdbyte")
        Task.objects.filter(id=task.id).update(scheduled_at=timezone.now() - timedelta(seconds=1))
        run_to_the_end(steps, consumer, lambda _: failed)
    dead_letter = DeadLetter.objects.get(task=task)
    assert (dead_letter.cause, dead_letter.evidence) == ("error", {"log": ["a\ufffdb"]})
