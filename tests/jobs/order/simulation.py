"""Simulated time over the real statements: an engine and an orchestrator that are driven round by round.

All slots of the engine end their tasks together: a round is one service time. What is passed as the time is simulated;
the statements, scripts and events are those that run in production.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import msgspec
from django.db import transaction

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed, Outcome
from dalston_queue.broker.protocol.types import EngineState, Priority
from dalston_queue.ids import uuid7
from dalston_queue.jobs.lifecycle.advance import Advanced, claim_jobs
from dalston_queue.jobs.order.ageing import promote_aged
from dalston_queue.jobs.order.refill import refill
from dalston_queue.jobs.submit.rows import NewJob, NewTask, insert_jobs
from dalston_queue.jobs.submit.spec import StageSpec
from dalston_queue.jobs.submit.submit import OfJob, task_row
from dalston_queue.models import Project, Task
from dalston_queue.orchestrator.batch import handle
from dalston_queue.orchestrator.scheduler import make_due_ready
from tests.jobs.make import NOW
from tests.orchestrator.support import Steps

QUEUE = "echo"
Of = TypeVar("Of", bound=Hashable)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a task by the engine. The wait is since the first enqueue."""

    project_id: UUID
    key: str
    priority: str  # as it was submitted
    task_id: UUID
    attempt: int
    round: int
    at: datetime
    wait: timedelta


def succeed(_delivery: Delivery) -> Outcome:
    return Completed({})


@dataclass
class Simulation:
    steps: Steps
    consumer: Consumer
    answer: Callable[[Delivery], Outcome] = succeed
    service: timedelta = MINUTE
    now: datetime = NOW
    rounds: int = 0
    starts: list[Start] = field(default_factory=list)
    _promoted_at: datetime = NOW

    def submit(
        self, project: Project, count: int = 1, *, priority: Priority = Priority.MEDIUM, key: str = "",
        max_retries: int | None = None,
    ) -> None:  # fmt: skip
        """So many jobs of one task, claimed by an orchestrator at once."""
        jobs: list[NewJob] = []
        tasks: list[NewTask] = []
        for _ in range(count):
            job = NewJob(
                id=uuid7(), project_id=project.pk, token_id=None, name="simulated", priority=priority,
                parameters=msgspec.Raw(b"{}"), trace_id="simulated", callback_url="",
            )  # fmt: skip
            stage = StageSpec(stage=QUEUE, max_retries=max_retries)
            jobs.append(job)
            tasks.append(task_row(stage, OfJob(job.id, project.pk, priority, key)))
        if jobs:
            insert_jobs(jobs, tasks, self.now)
            with transaction.atomic():
                claimed = claim_jobs([job.id for job in jobs], self.now)
            self._follow_up(claimed)

    def play(self, rounds: int, arrive: Callable[[], None] = lambda: None) -> None:
        """So many rounds, with arrivals before each."""
        for _ in range(rounds):
            arrive()
            self.round()

    def round(self) -> None:
        """The tasks of the last round end, the next ones start, and a service time passes. Each minute the duty of
        ageing runs; the other polls run each round."""
        if self.now - self._promoted_at >= MINUTE:
            self._promoted_at = self.now
            promote_aged(self.now)
        make_due_ready(self.now)
        refill(None, self.now)
        settlements = [(delivery, self.answer(delivery)) for delivery in self.consumer.held]
        claimed = self.consumer.exchange(settlements).claimed
        while claimed or settlements:
            self._note(claimed)
            self._apply_events()
            settlements = []
            claimed = self.consumer.claim()  # what the refill has brought, for slots that are still free
        self.rounds += 1
        self.now += self.service

    def count(self, of: Callable[[Start], Of]) -> Counter[Of]:
        """How many tasks were started, by something of theirs."""
        return Counter(of(start) for start in self.starts)

    def _note(self, claimed: list[Delivery]) -> None:
        tasks = Task.objects.in_bulk([UUID(delivery.task_id) for delivery in claimed])
        for delivery in claimed:
            task = tasks[UUID(delivery.task_id)]
            assert task.first_enqueued_at
            wait = self.now - task.first_enqueued_at
            group = task.project_id, task.concurrency_key
            self.starts.append(
                Start(*group, str(task.priority), task.id, delivery.attempt, self.rounds, self.now, wait)
            )

    def _apply_events(self) -> None:
        while batch := self.steps.events():
            advanced = handle(batch, self.now)
            self.steps.reader.ack(batch)
            self._follow_up(advanced)

    def _follow_up(self, advanced: Advanced) -> None:
        if advanced.lanes:
            refill(advanced.lanes, self.now, advanced.started)


@contextmanager
def simulation(broker: Broker, steps: Steps, *, slots: int, service: timedelta = MINUTE) -> Iterator[Simulation]:
    """With one engine of so many slots, whose tasks take so long."""
    name = "lone.demo.0.boot"
    broker.registry.beat_engine(EngineBeat(engine_id=name, state=EngineState.READY, queues=(QUEUE,), capacity=slots))
    consumer = Consumer(broker, name, [QUEUE], capacity=slots)
    consumer.open()
    try:
        yield Simulation(steps, consumer, service=service)
    finally:
        consumer.close()
        broker.registry.forget([name])
