"""The metrics by their documented names, on the web process and on the orchestrator's port."""

from urllib.request import urlopen

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django import Settings

from dalston_queue.broker import Broker
from tests.broker.conftest import message
from tests.jobs import make
from tests.orchestrator.processes import Orchestrators
from tests.orchestrator.support import Steps, engine
from tests.support import reserve_port


def test_the_numbers_are_those_of_the_queue(broker: Broker, steps: Steps, client: Client, settings: Settings) -> None:
    settings.DALSTON_WINDOW = 2
    for _ in range(3):
        make.single()
    steps.poll()
    settings.DALSTON_STALE_THRESHOLD_MS = 0
    with engine(broker, capacity=1) as consumer:
        consumer.claim()
        text = client.get("/metrics").content.decode()
        for line in (
            "dalston_redis_up 1.0",
            "dalston_postgres_up 1.0",
            'dalston_queue_depth{stage="echo"} 2.0',
            'dalston_queue_ready{stage="echo"} 1.0',
            'dalston_tasks_pending{stage="echo"} 1.0',
            'dalston_tasks_stale{stage="echo"} 1.0',
            'dalston_task_recovery_total{stage="echo"} 0.0',
        ):
            assert line in text.splitlines()
    steps.drain()
    broker.reset_queue("echo")


@pytest.mark.django_db
def test_without_redis_the_numbers_are_absent_not_zero(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    text = client.get("/metrics").content.decode()
    assert "dalston_redis_up 0.0" in text
    assert "dalston_postgres_up 1.0" in text
    assert "dalston_queue_depth" not in text


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_without_postgres_the_depth_is_absent_and_the_rest_is_there(broker: Broker, client: Client) -> None:
    broker.append([message()])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE dalston_depth RENAME TO away")  # its reads fail until this is rolled back
        text = client.get("/metrics").content.decode()
        transaction.set_rollback(True)
    assert "dalston_postgres_up 0.0" in text
    assert 'dalston_tasks_pending{stage="echo"} 0.0' in text
    assert "dalston_queue_depth" not in text


@pytest.mark.keeps_keys
def test_an_orchestrator_serves_them_on_its_own_port(orchestrators: Orchestrators) -> None:
    port = reserve_port()
    process = orchestrators.start("--metrics", f"127.0.0.1:{port}")
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    assert "dalston_redis_up 1.0" in text
    assert "dalston_scheduler_scanned_total" in text
    process.stop()
