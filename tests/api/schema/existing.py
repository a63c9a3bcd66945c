"""Rows that exist while the API is fuzzed: tasks, jobs, dead letters, replay batches, nodes and workers.

Each is in a state in which its operation can succeed. Made by the web process under test, an engine, and an
orchestrator driven step by step. An operation without rows of its own gets those of its path parameters.
"""

from __future__ import annotations

import io
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import httpx
from django.test import override_settings
from django.utils import timezone

from dalston_queue.artifacts import Store
from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.nodes.commands import CommandState, Reply
from dalston_queue.broker.nodes.registry import EngineBeat, NodeInfo
from dalston_queue.broker.protocol.messages import ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState
from dalston_queue.jobs.artifacts import add_upload
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import DeadLetter, Job, Limit, Project, Task, WebhookDelivery, WebhookSecret
from dalston_queue.transcription.wanted import Wanted
from tests.api.documented import OPERATIONS, Route
from tests.api.transcription import speech
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.support import wait_until

NODE = "gpu-01"
SLOT = "demo.0"
ENGINE = f"{NODE}.{SLOT}.boot"
CALLBACK = "https://example.com/hook"  # no webhook is sent: there is no sender
MANY, FEW = 32, 6

Named = dict[str, Any]
Existing = dict[str, list[Named]]
"""By operation: values that replace the generated ones, in the path or else in the body."""


@contextmanager
def existing(broker: Broker, project: Project, client: httpx.Client, store: Store) -> Iterator[Existing]:
    """`broker` and `store` are those of the web process that `client` calls. Until the end its node answers."""
    queue = f"fuzz-{secrets.token_hex(4)}"  # the web process outlives a test, and so does what is in its streams
    steps = Steps(broker)
    consumer = Consumer(broker, ENGINE, [queue], capacity=MANY)
    consumer.open()
    stopped = threading.Event()
    supervisor = threading.Thread(target=_supervise, args=(broker, stopped))
    try:
        beat = EngineBeat(engine_id=ENGINE, state=EngineState.READY, queues=(queue,), capacity=MANY)
        broker.registry.beat_node(NODE, NodeState.ACTIVE, [beat], {"version": "1"})
        supervisor.start()
        work = _Work(project, queue, steps, consumer)
        with override_settings(DALSTON_WINDOW=2 * MANY):  # each call of `enqueue` queues all that waits
            parts = (
                _dead_letters(work, client),
                _tasks_and_jobs(work),
                _nodes(broker, client),
                _workers(work, client),
                _limits(work),
                _transcriptions(work, broker, store),
            )
        by_parameters = {names: named for part in parts for names, named in part.by_parameters.items()}
        by_route = {route: named for part in parts for route, named in part.by_route.items()}
        yield {
            f"{method} /api/v1{path}": by_route.get(
                (method, path), by_parameters.get(frozenset(re.findall(r"{(\w+)}", path)), [])
            )
            for method, path in OPERATIONS
        }
    finally:
        stopped.set()
        if supervisor.ident:
            supervisor.join()
        consumer.close()
        steps.reader.close()


@dataclass(frozen=True)
class Part:
    by_route: dict[Route, list[Named]] = field(default_factory=dict)
    by_parameters: dict[frozenset[str], list[Named]] = field(default_factory=dict)

    @classmethod
    def of(cls, by_route: dict[Route, list[Named]], *defaults: list[Named]) -> Part:
        return cls(by_route, {frozenset(named[0]): named for named in defaults})


class _Work:
    """Submits tasks and drives them."""

    def __init__(self, project: Project, queue: str, steps: Steps, consumer: Consumer) -> None:
        self.project, self.queue = project, queue
        self.steps, self.consumer = steps, consumer

    def tasks(self, count: int, queue: str = "", **wanted: Any) -> list[Task]:
        spec = single_task("echo", queue=queue or self.queue, **wanted)
        return [Task.objects.get(job_id=submit(spec, project=self.project).job_id) for _ in range(count)]

    def job(self) -> Job:
        """Three stages; the last may fail."""
        first = StageSpec(stage="first", queue=self.queue)
        then = StageSpec(stage="then", queue=self.queue, after=("first",))
        perhaps = StageSpec(stage="perhaps", queue=self.queue, required=False)
        submission = submit(JobSpec(name="three", stages=(first, then, perhaps)), project=self.project)
        return Job.objects.get(pk=submission.job_id)

    def complete(self) -> None:
        run_to_the_end(self.steps, self.consumer)

    def fail(self) -> None:
        run_to_the_end(self.steps, self.consumer, _refuse)

    def claim(self) -> None:
        self.enqueue()
        self.consumer.claim()
        self.steps.drain()

    def enqueue(self) -> None:
        self.steps.poll()
        self.steps.drain()

    def are_queued(self, queue: str, count: int) -> bool:
        self.enqueue()
        return Task.objects.filter(queue=queue, status="queued").count() == count


def _refuse(_: Delivery) -> Outcome:
    error = ErrorInfo(message="no such file", type="FileNotFoundError", cause=Cause.REJECTED, traceback="line 1")
    return Failed(error)


def _tasks_and_jobs(work: _Work) -> Part:
    WebhookSecret.objects.create(project=work.project, text="whsec_fuzz", created_at=timezone.now())
    over = [work.job() for _ in range(FEW)]
    with_webhook = work.tasks(1, callback_url=CALLBACK)
    work.complete()
    refused = work.job()
    work.fail()
    running = work.tasks(MANY // 2)
    work.claim()
    waiting, waiting_jobs = work.tasks(MANY), [work.job() for _ in range(FEW)]
    later = work.tasks(1, scheduled_at=timezone.now() + timedelta(hours=1))
    work.enqueue()
    of_jobs = Task.objects.filter(job__in=[over[0], refused, waiting_jobs[0]])
    tasks = _ids("task_id", [*of_jobs, running[0], waiting[0], *later])
    delivery = WebhookDelivery.objects.get(job_id=with_webhook[0].job_id)
    by_route: dict[Route, list[Named]] = {
        ("DELETE", "/tasks/{task_id}"): _ids("task_id", [*waiting[:FEW], running[0]]),
        ("POST", "/tasks/{task_id}/requeue"): [{**each, "entry_id": ""} for each in _ids("task_id", running[2:])],
        ("POST", "/tasks/{task_id}/dead_letter"): [
            {**each, "attempt": 1} for each in _ids("task_id", [*waiting[FEW:], running[1]])
        ],
        ("GET", "/jobs/{job_id}/events"): _ids("job_id", over),  # the streams of jobs that are over end
        ("DELETE", "/jobs/{job_id}"): _ids("job_id", waiting_jobs),
    }
    jobs = [{"job_id": str(each.job_id)} for each in (*with_webhook, *of_jobs)]
    deliveries = [{"job_id": str(delivery.job_id), "delivery_id": str(delivery.pk)}]
    return Part.of(by_route, tasks, jobs, deliveries, [{"stage": work.queue}])


def _dead_letters(work: _Work, client: httpx.Client) -> Part:
    dead = work.tasks(MANY)
    work.fail()
    found = list(DeadLetter.objects.filter(task__in=dead))
    by_route: dict[Route, list[Named]] = {
        ("DELETE", "/dead_letters/{dead_letter_id}"): _ids("dead_letter_id", found[FEW : 2 * FEW]),
        ("POST", "/dead_letters/{dead_letter_id}/replay"): _ids("dead_letter_id", found[2 * FEW :]),
    }
    batches = [{"replay_batch_id": _replay_batch(client, each.pk)} for each in found[:FEW]]
    return Part.of(by_route, batches, _ids("dead_letter_id", found))


def _replay_batch(client: httpx.Client, dead_letter: UUID) -> str:
    answer = client.post(
        "/api/v1/dead_letters:replay", json={"ids": [str(dead_letter)], "undo_seconds": 3600, "reason": "fuzz"}
    )
    return str(answer.raise_for_status().json()["replay_batch_id"])


def _nodes(broker: Broker, client: httpx.Client) -> Part:
    gone = [f"gone-{number}" for number in range(FEW)]
    for node in gone:
        broker.registry.beat_node(node, NodeState.ACTIVE, [])
        broker.registry.condemn_node(NodeInfo(node_id=node, state=NodeState.ACTIVE))
    answer = client.post(f"/api/v1/nodes/{NODE}/commands", json={"command": "drain", "reason": "fuzz"})
    command = answer.raise_for_status().json()["command_id"]
    return Part.of(
        {("DELETE", "/nodes/{node_id}"): [{"node_id": node} for node in [*gone, NODE]]},
        [{"node_id": NODE}],
        [{"node_id": NODE, "command_id": command}],
        [{"node_id": NODE, "engine": SLOT}],
    )


def _limits(work: _Work) -> Part:
    made = [Limit.objects.create(queue=f"{work.queue}-{number}", max_in_flight=number) for number in range(FEW)]
    return Part.of(
        {("PUT", "/limits"): [{"project": work.project.name}]},
        [{"limit_id": limit.pk} for limit in made],
        [{"project": work.project.name}],
    )


def _transcriptions(work: _Work, broker: Broker, store: Store) -> Part:
    audio = store.put(io.BytesIO(b"it was the best of times"))
    made = []
    for number in range(2 * FEW):
        wanted = Wanted(filename=f"{number}.wav", audio=audio.ref)
        job_id = submit(wanted.job(), project=work.project, brings={audio.ref}).job_id
        add_upload(work.project.pk, job_id, audio, wanted.filename)
        made.append({"transcription_id": str(job_id)})
    with engine(broker, *speech.QUEUES, name="node.speech.0.boot") as consumer:
        run_to_the_end(work.steps, consumer, partial(speech.answer, store))
    path = "/audio/transcriptions/{transcription_id}"
    return Part.of(
        {
            ("DELETE", path): made[FEW:],
            ("GET", f"{path}/export/{{format}}"): [{**each, "format": "srt"} for each in made[:FEW]],
        },
        made[:FEW],
    )


def _supervise(broker: Broker, stopped: threading.Event) -> None:
    """Plays the supervisor: each command is done, each request for a log answered."""
    channel, logs = broker.node(NODE), broker.logs(NODE)
    after = asked = "0"
    while not stopped.is_set():
        for command in channel.receive(after, block_ms=100, asked=asked):
            if command.asks:
                asked = command.entry_id
                logs.write(SLOT, [(7, "2026-01-02T03:04:05.678Z hello")], command.command_id)
            else:
                after = command.entry_id
            channel.reply(Reply(command_id=command.command_id, state=CommandState.DONE, message="done"))


def _workers(work: _Work, client: httpx.Client) -> Part:
    queue = f"{work.queue}-http"
    worker = _register(client, queue)
    draining, *leaving = [_register(client, queue) for _ in range(1 + FEW)]
    work.tasks(MANY, queue)
    # The window has room for all of them as soon as the workers are known: within a second.
    wait_until(lambda: work.are_queued(queue, MANY), what="all are queued")
    client.post(f"/api/v1/workers/{draining}/drain", json={"reason": "fuzz"}).raise_for_status()
    holds = [{"worker_id": worker, **hold} for hold in _poll(client, worker, MANY - FEW)]
    for each in leaving:
        _poll(client, each, 1)
    work.steps.drain()
    # A cancelled task may end with any result.
    ending = holds[FEW:]
    for hold in ending:
        client.delete(f"/api/v1/tasks/{hold['task_id']}").raise_for_status()
    path = "/internal/workers/{worker_id}"
    by_route: dict[Route, list[Named]] = {
        ("POST", f"{path}/start"): holds[:FEW],
        ("POST", f"{path}/progress"): holds[:FEW],
        ("POST", f"{path}/result"): ending,
        ("DELETE", path): [{"worker_id": each} for each in leaving],
        ("POST", "/workers/{worker_id}/drain"): [{"worker_id": worker}, {"worker_id": draining}],
        ("POST", "/workers/{worker_id}/resume"): [{"worker_id": draining}, {"worker_id": worker}],
    }
    return Part.of(by_route, [{"worker_id": worker}])


def _register(client: httpx.Client, queue: str) -> str:
    answer = client.post("/api/v1/internal/workers/register", json={"stages": [queue], "capacity": MANY})
    return str(answer.raise_for_status().json()["worker_id"])


def _poll(client: httpx.Client, worker: str, count: int) -> list[Named]:
    body = {"held": [], "available_capacity": count}
    tasks = client.post(f"/api/v1/internal/workers/{worker}/poll", json=body).raise_for_status().json()["tasks"]
    return [{"task_id": task["task_id"], "attempt": task["attempt"]} for task in tasks]


def _ids(name: str, rows: Sequence[Task | Job | DeadLetter]) -> list[Named]:
    return [{name: str(row.pk)} for row in rows]
