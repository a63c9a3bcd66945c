"""Pause of a queue: engines claim nothing, running tasks go on, and a flag that Redis lost is restored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.operator import pause
from dalston_queue.models import StagePause, Task
from dalston_queue.redis import get_broker
from tests.broker.servers import nodes
from tests.jobs import make
from tests.jobs.together import at_once
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, engine, run_to_the_end, work
from tests.support import wait_until


def is_paused(broker: Broker) -> bool:
    return any(queue.paused for queue in broker.snapshot(["echo"]).queues)


def test_nothing_is_claimed_from_a_paused_queue_until_it_is_resumed(broker: Broker, steps: Steps) -> None:
    make.single()
    steps.poll()
    assert pause.pause("echo", timezone.now(), actor="operator", reason="model update").changed
    assert not pause.pause("echo", timezone.now(), actor="operator").changed
    with engine(broker) as consumer:
        assert work(consumer) == []
        assert pause.resume("echo").changed
        assert not pause.resume("echo").changed
        assert run_to_the_end(steps, consumer) == 1


def test_a_flag_that_redis_lost_is_restored_and_one_without_a_row_is_removed(broker: Broker, steps: Steps) -> None:
    make.single()
    steps.poll()
    pause.pause("echo", timezone.now(), actor="operator")
    broker.resume("echo")
    assert pause.restore() == 1
    assert is_paused(broker)
    StagePause.objects.all().delete()
    assert pause.restore() == 1
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_pause_or_resume_while_flags_are_restored_holds(broker: Broker, steps: Steps, action: str) -> None:
    make.single()
    steps.poll()
    if action == "resume":
        pause.pause("echo", timezone.now(), actor="operator")

    def press() -> None:
        if action == "pause":
            pause.pause("echo", timezone.now(), actor="operator")
        else:
            pause.resume("echo")

    def press_after_it(execute: Callable[..., Any], *arguments: Any) -> Any:
        rows = execute(*arguments)
        at_once(press)
        return rows

    with connection.execute_wrapper(press_after_it):
        pause.restore()
    assert is_paused(broker) == (action == "pause")
    pause.resume("echo")
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)


@pytest.mark.django_db(transaction=True)
def test_a_pause_while_redis_is_away_reaches_engines_once_it_is_back(
    orchestrators: Orchestrators, tmp_path: Path, settings: Settings
) -> None:
    """No housekeeping runs here: the orchestrator alone does it."""
    with nodes() as made:
        redis = made.start(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always")
        settings.REDIS_URL = redis.url
        orchestrator = orchestrators.start(REDIS_URL=redis.url)
        task = make.single()
        wait_until(lambda: Task.objects.get(id=task.id).status == "queued", what="the task is queued")
        redis.kill()
        assert pause.pause("echo", timezone.now(), actor="operator") == pause.PauseResult(changed=True, reached=False)
        orchestrator.wait_for("a server does not answer")
        redis.start()
        wait_until(lambda: is_paused(get_broker()), what="the queue is paused")
