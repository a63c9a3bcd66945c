"""Pausing a queue: engines take nothing, what runs goes on, and Redis may forget it."""

from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.jobs import pause
from dalston_queue.models import StagePause
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end, work


def test_a_paused_queue_gives_nothing_until_it_is_resumed(broker: Broker, steps: Steps) -> None:
    make.single()
    steps.poll()
    assert pause.pause("echo", timezone.now(), actor="operator", reason="model update").changed
    assert not pause.pause("echo", timezone.now(), actor="operator").changed
    with engine(broker) as consumer:
        assert work(consumer) == []
        assert pause.resume("echo").changed
        assert not pause.resume("echo").changed
        assert run_to_the_end(steps, consumer) == 1


def test_a_pause_that_redis_forgot_is_put_back_and_one_it_kept_too_long_is_lifted(broker: Broker, steps: Steps) -> None:
    make.single()
    steps.poll()
    pause.pause("echo", timezone.now(), actor="operator")
    broker.resume("echo")
    assert pause.restore() == 1
    assert [queue.paused for queue in broker.snapshot(["echo"]).queues] == [True]
    StagePause.objects.all().delete()
    assert pause.restore() == 1
    with engine(broker) as consumer:
        run_to_the_end(steps, consumer)
