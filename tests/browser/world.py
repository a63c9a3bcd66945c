"""Data of all kinds for every page: a running DAG, dead letters, a replay batch, nodes in all states, an audit row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from dalston_queue.audit.record import audited
from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.nodes.commands import Command, CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat, NodeInfo
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState
from dalston_queue.jobs.operator.replay_batches import create_replay_batch
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import AlertState, DeadLetter, Job, Limit, Project, Sample, WebhookDelivery
from tests.orchestrator.support import Steps, engine

OWNER = "gpu-01.transcribe.0.b00t"
QUEUES = ("prepare", "transcribe", "merge", "broken")
DEVICE = {
    "uuid": "GPU-1a2b", "name": "NVIDIA L4", "total_mib": 24576, "used_mib": 9216, "utilisation": 83,
    "temperature": 67, "power_w": 64,
}  # fmt: skip


@dataclass(frozen=True)
class World:
    job_id: str
    task_id: str
    dead_letter_id: str

    def path(self, path: str) -> str:
        return path.format(job=self.job_id, task=self.task_id, dead_letter=self.dead_letter_id)


def make_world(broker: Broker) -> World:
    project = Project.objects.create(name="calls")
    stages = (
        StageSpec(stage="prepare", parameters={"file": "call-4711.wav"}),
        StageSpec(stage="transcribe_ch0", after=("prepare",)),
        StageSpec(stage="transcribe_ch1", after=("prepare",)),
        StageSpec(stage="merge", after=("transcribe_ch0", "transcribe_ch1")),
    )
    job = submit(JobSpec(name="call-4711.wav", stages=stages), project=project)
    for number in range(2):
        submit(single_task("broken", parameters={"number": number}, max_retries=0), project=project)
    steps = Steps(broker)
    with engine(broker, *QUEUES, name=OWNER) as consumer:
        steps.poll()
        consumer.exchange([(task, _outcome(task)) for task in consumer.claim()], free=0)
        steps.drain()
        [first, _second] = consumer.claim()
        first.progress({"fraction": 0.4, "message": "12 of 30 minutes"})
        steps.drain()
        task_id = first.task_id
        submit(single_task("transcribe", priority="low"), project=project)
        steps.poll()
        # Leaves its session open: its tasks stay running.
        consumer.close = lambda: None  # type: ignore[method-assign]
    dead_letters = list(DeadLetter.objects.order_by("id"))
    create_replay_batch([dead_letters[0].pk], actor="user grace", reason="fixed", undo_seconds=600)
    _nodes(broker, task_id)
    _webhook(job.job_id)
    Limit.objects.create(queue="transcribe", project=project, max_in_flight=3)
    Limit.objects.create(queue="merge", starts_per_minute=60)
    _alert()
    with audited("queue.pause", "transcribe", actor="user grace", reason="new model", before={"paused": False}) as row:
        row.after = {"paused": True}
    return World(str(job.job_id), task_id, str(dead_letters[-1].pk))


def _outcome(task: Delivery) -> Outcome:
    if task.message.queue == "broken":
        error = ErrorInfo(message="no audio track in the file", type="ValueError", cause=Cause.ERROR, traceback="at 3")
        return Failed(error)
    return Completed({"minutes": 30})


def _alert() -> None:
    now = timezone.now()
    times = {"since": now, "held_at": now, "fired_at": now}
    text = "No engine is ready: nothing can run."
    AlertState.objects.create(name="DalstonNoActiveWorkers", severity="critical", value=0, text=text, **times)


def _webhook(job_id: UUID) -> None:
    """A webhook of an earlier end of the job, whose receiver did not answer."""
    url, now = "https://calls.example/done", timezone.now()
    Job.objects.filter(pk=job_id).update(callback_url=url)
    outcome = {"state": "gave_up", "attempts": 12, "last_error": "no answer within 10 s"}
    WebhookDelivery.objects.create(
        job_id=job_id, url=url, origin="https://calls.example", status="failed", finished_at=now, next_at=now, **outcome
    )


def _nodes(broker: Broker, task_id: str) -> None:
    now = int(time.time() * 1000)
    exit_ = {
        "engine_id": "gpu-01.transcribe.0.old",
        "at_ms": now,
        "kind": "cuda_oom",
        "text": "exit code 1; CUDA out of memory",
    }
    task = {"task_id": task_id, "queue": "transcribe", "started_at_ms": now, "deadline_ms": now + 600_000}
    report = {"slot": "transcribe.0", "engine": "transcribe", "version": "2.1", "pid": 77, "tasks": [task],
              "running": 2, "exits": 1, "last_exits": [exit_], "cpu_percent": 71.0, "memory_mib": 3100.0}  # fmt: skip
    engines = [
        EngineBeat(engine_id=OWNER, state=EngineState.READY, queues=QUEUES, capacity=4, info=report),
        EngineBeat(
            engine_id="gpu-01.diarize.0.b00t", state=EngineState.CRASHLOOP, queues=("diarize",),
            info={"slot": "diarize.0", "engine": "diarize", "why": "5 failures in 10 min; next try in 40 s"},
        ),
    ]  # fmt: skip
    healthy = {"index": 0, **DEVICE}
    sick = {**DEVICE, "index": 1, "uuid": "GPU-3c4d", "standing": "quarantined", "why": "Xid 79", "last_xid": 79}
    info = {"labels": {"zone": "b"}, "gpus": {"devices": [healthy, sick]}}
    broker.registry.beat_node("gpu-01", NodeState.ACTIVE, engines, info)
    broker.registry.beat_node("gpu-02", NodeState.ACTIVE, [], {})
    broker.registry.condemn_node(NodeInfo(node_id="gpu-02", state=NodeState.ACTIVE))
    alone = EngineBeat(engine_id="laptop.echo.0.x", state=EngineState.READY, queues=("echo",), info={"alone": True})
    broker.registry.beat_engine(alone, "laptop")
    channel = broker.node("gpu-01")
    sent = channel.send(
        Command(name="restart", arguments={"engine": "diarize", "reason": "new driver"}, actor="user grace")
    )
    channel.reply(Reply(command_id=sent, state=CommandState.DONE, message="restarting 1 of 1"))
    minute = timezone.now().replace(second=0, microsecond=0)
    Sample.objects.bulk_create(
        Sample(kind="gpu", name="gpu-01 GPU-1a2b", at=minute - timedelta(minutes=back),
               numbers={"used_mib": 9000 + back * 20, "utilisation": 40 + back, "temperature": 60 + back % 7})
        for back in range(1, 40)
    )  # fmt: skip
    Sample.objects.bulk_create(
        Sample(kind=kind, name="all", at=minute - timedelta(minutes=back), numbers=numbers)
        for back in range(1, 50)
        for kind, numbers in (("tasks", _tasks(back)), ("workers", {"capacity": 12, "running": 3 + back % 10}))
        if back not in (20, 21, 30)
    )


def _tasks(back: int) -> dict[str, float]:
    """What ended in a minute, with its times, retries, and the ages of what waits."""
    return {
        "completed": 90 + 7 * (back % 9), "failed": back % 4, "retry_timeout": 2 + back % 3, "retry_gpu_oom": back % 2,
        "wait_p50": 2.0 + back % 3, "wait_p95": 14.0 + back % 7, "wait_p99": 31.0 + back % 11,
        "run_p50": 40.0 + back % 3, "run_p95": 95.0 + back % 7, "run_p99": 140.0 + back % 11,
        "age_10": 12, "age_60": 30, "age_600": 41, "age_3600": 3, "age_more": 0, "age_unread": 300,
    }  # fmt: skip
