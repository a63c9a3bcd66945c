"""Scheduled tasks and retries become ready in time, once, and survive an absent or full Redis."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone
from prometheus_client import REGISTRY
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError
from dalston_queue.models import Job, Task
from dalston_queue.orchestrator.loop import poll
from dalston_queue.orchestrator.scheduler import make_due_ready
from dalston_site.embedded.server import Server
from tests.jobs import make
from tests.jobs.together import at_once
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.support import keeps_time, wait_until


@pytest.mark.keeps_keys
def test_a_scheduled_task_is_ready_within_a_second_of_its_time(orchestrators: Orchestrators, broker: Broker) -> None:
    orchestrators.start()

    def once() -> float:
        at = timezone.now() + timedelta(seconds=2)
        task = make.single(scheduled_at=at)
        wait_until(lambda: Job.objects.get(id=task.job_id).status == "completed", what="the task is completed")
        late = (task.events.get(transition="due").at - at).total_seconds()
        assert late >= 0
        return late

    with working_engine(broker):
        keeps_time(1.0, once)


@pytest.mark.keeps_keys
def test_a_task_that_is_due_between_two_polls_waits_for_half_of_the_interval_at_most(
    orchestrators: Orchestrators,
) -> None:
    """By its second poll the orchestrator knows of the task; the third would be a second and a half late."""

    def once() -> float:
        orchestrator = orchestrators.start(DALSTON_SCHEDULER_INTERVAL_S="2")
        at = timezone.now() + timedelta(seconds=2.5)
        task = make.single(scheduled_at=at)
        wait_until(lambda: task.events.filter(transition="due").exists(), what="the task is due")
        orchestrator.stop()
        late = (task.events.get(transition="due").at - at).total_seconds()
        assert late >= 0
        return late

    keeps_time(1.0, once)


def test_more_than_a_batch_is_taken_batch_by_batch_and_counted(steps: Steps, broker: Broker) -> None:
    before = REGISTRY.get_sample_value("dalston_scheduler_queued_total") or 0
    jobs = [make.single(scheduled_at=timezone.now() + timedelta(hours=1)).job for _ in range(250)]
    make.claim(*jobs)
    Task.objects.update(scheduled_at=timezone.now() - timedelta(seconds=1))
    assert len(make_due_ready(timezone.now())) == 250
    assert REGISTRY.get_sample_value("dalston_scheduler_queued_total") == before + 250
    steps.drain()


def test_schedulers_that_poll_at_once_make_each_task_ready_once(steps: Steps) -> None:
    jobs = [make.single(scheduled_at=timezone.now() + timedelta(hours=1)).job for _ in range(60)]
    make.claim(*jobs)
    Task.objects.update(scheduled_at=timezone.now() - timedelta(seconds=1))
    ready = at_once(*[partial(make_due_ready, timezone.now())] * 4)
    assert sum(map(len, ready)) == 60
    assert Task.objects.filter(status="ready").count() == 60
    steps.drain()


def test_without_redis_a_due_task_is_not_lost(broker: Broker, steps: Steps, settings: Settings) -> None:
    task = make.single(scheduled_at=timezone.now() + timedelta(hours=1))
    make.claim(task.job)
    Task.objects.update(scheduled_at=timezone.now() - timedelta(seconds=1))
    address, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    with pytest.raises(BrokerError):
        poll()
    settings.REDIS_URL = address
    with engine(broker) as consumer:
        assert run_to_the_end(steps, consumer) == 1


@pytest.mark.django_db(transaction=True)
def test_while_redis_is_full_tasks_wait_in_postgres_and_the_rest_goes_on(
    valkey_server: Callable[..., Server], settings: Settings
) -> None:
    server = valkey_server({"maxmemory": "1mb"})
    settings.REDIS_URL = server.url
    task = make.single()
    poll()
    assert Task.objects.get(id=task.id).status == "ready"
