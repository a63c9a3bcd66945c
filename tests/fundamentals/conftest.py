"""Dalston in one process, driven step by step: the real Postgres and Redis, one orchestrator, and engines by name."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from dalston_queue.broker import Broker, Consumer
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec, single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Job, Project, Task
from tests.orchestrator.support import Steps

QUEUE = "transcribe"


class Dalston:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.project = Project.objects.create(name="podcasts")
        self._orchestrator = Steps(broker)
        self._engines: dict[str, Consumer] = {}

    def submit(self, key: str | None = None) -> UUID:
        """What `POST /api/v1/tasks` does. Returns the task's id."""
        spec = single_task(QUEUE, parameters={"file": "a.wav"})
        return Task.objects.get(job_id=submit(spec, project=self.project, idempotency_key=key).job_id).id

    def submit_dag(self, **after: str) -> UUID:
        """A job from its stages, each with the stages that it waits for. Returns the job's id."""
        stages = tuple(StageSpec(stage=name, queue=QUEUE, after=tuple(names.split())) for name, names in after.items())
        return submit(JobSpec(name="podcast", stages=stages), project=self.project).job_id

    def orchestrate(self) -> None:
        """What `manage.py runorchestrator` does: apply the events of engines, dispatch the tasks that are ready."""
        self._orchestrator.drain()
        self._orchestrator.poll()
        self._orchestrator.drain()

    def engine(self, name: str) -> Consumer:
        """The engine of this name: its end of the queue, as the engine SDK uses it."""
        if name not in self._engines:
            self._engines[name] = Consumer(self.broker, name, [QUEUE], capacity=4)
            self._engines[name].open()
        return self._engines[name]

    def reclaim(self, name: str) -> None:
        """What happens when a supervisor sees its engine die, or the judge misses its heartbeats."""
        self.broker.reclaim(name, [QUEUE], Cause.ENGINE_LOST, max_deliveries=3, max_losses=10)
        del self._engines[name]

    def task(self, task_id: UUID) -> Task:
        return Task.objects.get(id=task_id)

    def statuses(self, job_id: UUID) -> dict[str, str]:
        return dict(Task.objects.filter(job_id=job_id).values_list("stage", "status"))

    def job(self, job_id: UUID) -> Job:
        return Job.objects.get(id=job_id)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._orchestrator.drain()
        self._orchestrator.reader.close()
        self.broker.reset_queue(QUEUE)


@pytest.fixture
def dalston(transactional_db: None, broker: Broker) -> Iterator[Dalston]:
    dalston = Dalston(broker)
    yield dalston
    dalston.close()
