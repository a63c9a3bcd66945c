"""The gauges by their documented names: right, bounded, and absent where their server does not answer."""

import re
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.jobs.queries.waits import OLDEST, OLDEST_AGES
from dalston_queue.metrics import collector, reading
from dalston_queue.metrics.reading import percentiles, readings
from dalston_queue.models import DeadLetter, Depth, Duty, Task
from tests.broker.conftest import message
from tests.jobs import make
from tests.metrics.support import samples
from tests.orchestrator.support import Steps, engine

ECHO = {"stage": "echo", "priority": "medium"}


def scraped(client: Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return samples(answer.content.decode())


def number(client: Client, name: str, **labels: str) -> float:
    return scraped(client)[name][tuple(sorted(labels.items()))]


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
            'dalston_queue_depth{priority="medium",stage="echo"} 2.0',
            'dalston_queue_ready{priority="medium",stage="echo"} 1.0',
            'dalston_queue_lag{priority="medium",stage="echo"} 1.0',
            'dalston_tasks_pending{stage="echo"} 1.0',
            'dalston_tasks_stale{stage="echo"} 1.0',
            'dalston_task_recovery_total{stage="echo"} 0.0',
            'dalston_results_refused_total{stage="echo"} 0.0',
            'dalston_events_backlog{stage="echo"} 1.0',
            'dalston_task_state_total{status="ready"} 1.0',
            'dalston_task_state_total{status="queued"} 2.0',
            'dalston_leader{role="orchestrator"} 0.0',
        ):
            assert line in text.splitlines(), line
    steps.drain()
    broker.reset_queue("echo")


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_workers_their_slots_breakers_and_disks_are_counted(broker: Broker, client: Client) -> None:
    def beat(name: str, state: EngineState, **info: object) -> EngineBeat:
        return EngineBeat(engine_id=f"n.{name}.0.b", state=state, queues=("echo",), capacity=4, info=info)

    engines = [
        beat("a", EngineState.READY, running=1),
        beat("b", EngineState.READY, running=2),
        beat("c", EngineState.UNHEALTHY, breaker="open"),
        beat("d", EngineState.UNHEALTHY, probe_failing=True, probe_failures=3, breaker="half_open"),
        beat("e", EngineState.DEAD, breaker="open"),
    ]
    broker.registry.beat_node("n", NodeState.ACTIVE, engines, {"disk_used": 0.25})
    found = scraped(client)
    assert found["dalston_workers_total"][("status", "ready"),] == 2
    assert found["dalston_workers_total"][("status", "unhealthy"),] == 2
    assert found["dalston_nodes_total"][("status", "active"),] == 1
    assert found["dalston_worker_capacity"][()] == 8
    assert found["dalston_worker_capacity_used_ratio"][()] == 3 / 8
    states = ("open", "half_open")
    assert [found["dalston_worker_breakers_open"][("state", state),] for state in states] == [1, 1]
    assert found["dalston_worker_probes_failing"][()] == 1
    assert found["dalston_disk_used_ratio"][("node", "n"),] == 0.25


@pytest.mark.usefixtures("broker")
@pytest.mark.django_db
def test_duties_and_dead_letters_are_counted(client: Client) -> None:
    Duty.objects.create(
        name="scanner",
        every_s=60,
        last_run_at=timezone.now() - timedelta(minutes=10),
        duration_ms=1,
        repaired=0,
        failures=2,
    )
    for cause, days in (("error", 0), ("error", 0), ("rejected", 0), ("error", 2)):
        at = timezone.now() - timedelta(days=days)
        DeadLetter.objects.create(
            queue="echo", cause=cause, retriable=cause != "rejected", fingerprint=cause, created_at=at
        )
    found = scraped(client)
    assert found["dalston_duty_age_seconds"][("duty", "scanner"),] == pytest.approx(600, abs=30)
    assert found["dalston_duty_overdue_seconds"][("duty", "scanner"),] == pytest.approx(420, abs=30)
    assert found["dalston_duty_failures"][("duty", "scanner"),] == 2
    assert found["dalston_dead_letters_open"][("reason", "error"),] == 2
    assert found["dalston_dead_letters_open"][("reason", "rejected"),] == 1
    assert found["dalston_dead_letters_retriable"][()] == 2, "a rejected one would be rejected again"


@pytest.mark.django_db
def test_without_redis_the_numbers_are_absent_not_zero(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    found = scraped(client)
    assert found["dalston_redis_up"][()] == 0
    assert found["dalston_postgres_up"][()] == 1
    assert "dalston_queue_depth" not in found
    assert "dalston_workers_total" not in found
    assert "dalston_task_state_total" in found


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_without_postgres_the_depth_is_absent_and_the_rest_is_there(broker: Broker, client: Client) -> None:
    broker.append([message()])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE dalston_depth RENAME TO away")  # its reads fail until this is rolled back
        found = scraped(client)
        transaction.set_rollback(True)
    assert found["dalston_postgres_up"][()] == 0
    assert found["dalston_tasks_pending"][("stage", "echo"),] == 0
    assert "dalston_queue_depth" not in found


def test_a_percentile_is_exact_or_absent() -> None:
    ages = [float(age) for age in range(100, 0, -1)]
    assert dict(percentiles(ages, 100)) == {"p50": 51.0, "p95": 96.0, "p99": 100.0, "oldest": 100.0}
    assert dict(percentiles([7.0], 1)) == {"p50": 7.0, "p95": 7.0, "p99": 7.0, "oldest": 7.0}
    assert dict(percentiles([], 0)) == {}
    deep = [float(OLDEST - rank) for rank in range(OLDEST)]
    found = dict(percentiles(deep, 30_000))
    assert found.keys() == {"p95", "p99", "oldest"}, "the 15 000th oldest was not read"
    assert found["p95"] == deep[1499]


@pytest.mark.usefixtures("no_hints", "broker")
@pytest.mark.django_db
def test_ages_are_of_all_that_waits_in_a_queue_whatever_its_lanes(client: Client) -> None:
    now = timezone.now()
    wanted = {"": (10, 20), "gpu": (30, 40)}
    for capability, ages in wanted.items():
        for age in ages:
            task = make.single("echo", required_capabilities=(capability,) if capability else ())
            make.move("make_ready", [task])
            Task.objects.filter(id=task.id).update(first_enqueued_at=now - timedelta(seconds=age))
    [queued] = Task.objects.filter(lane="echo", first_enqueued_at=now - timedelta(seconds=20))
    make.move("enqueue", [queued])
    found = reading.from_postgres(now).ages
    assert found["echo", "medium", "oldest"] == pytest.approx(40)
    assert found["echo", "medium", "p50"] == pytest.approx(30)


@pytest.mark.django_db
def test_ages_read_the_oldest_entries_of_an_index_and_no_more() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO dalston_job (id, project_id, name, status, priority, parameters, trace_id, progress, error,
                   created_at) SELECT gen_random_uuid(), %s, 'deep', 'running', 'medium', '{}', '', 0, '', now()
               FROM generate_series(1, 20000)""",
            [make.project().pk],
        )
        cursor.execute(
            """INSERT INTO dalston_task (id, job_id, project_id, stage, queue, lane, concurrency_key, task_type, after,
                   required, weight, status, priority, effective_priority, required_capabilities, parameters,
                   timeout_seconds, attempt, event_seq, max_retries, retry_count, deliveries, node_losses,
                   assigned_worker_id, error, error_type, error_cause, created_at, first_enqueued_at)
               SELECT gen_random_uuid(), id, project_id, 'a', 'deep', 'deep', '', 'a', '{}', true, 1, 'ready', 'medium',
                   'medium', '{}', '{}', 600, 1, 0, 3, 0, 0, 0, '', '', '', '', now(), now() - random() * interval '1 h'
               FROM dalston_job WHERE name = 'deep'"""
        )
        cursor.execute("ANALYZE dalston_task")
        Depth.objects.create(lane="deep", tier="medium", ready=20_000, queued=0, running=0)
        arguments: dict[str, Any] = {"now": timezone.now(), "lanes": 9, "oldest": OLDEST, "limit": 10}
        cursor.execute("EXPLAIN (ANALYZE, FORMAT TEXT) " + OLDEST_AGES, arguments)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "task_ready_by_age" in plan, plan
    assert "Seq Scan on dalston_task" not in plan, plan
    assert max(float(rows) for rows in re.findall(r"actual time=\S+ rows=([\d.]+)", plan)) <= OLDEST, plan
    found = reading.from_postgres(timezone.now()).ages
    assert found["deep", "medium", "p95"] == pytest.approx(0.95 * 3600, abs=120)


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_scrapes_share_a_reading(broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.append([message()])
    scraped(client)
    monkeypatch.setattr(readings, "fresh_s", 60.0)
    with CaptureQueriesContext(connection) as queries:
        found = scraped(client)
    assert len(queries) == 0
    assert found["dalston_snapshot_age_seconds"][()] > 0


SCANS = {"scan", "hscan", "sscan", "zscan", "keys", "xrevrange", "xread", "lrange", "hvals", "zrange", "sort"}
"""Commands that read as much as there is. HKEYS reads the lanes of a queue, at most 32, and XRANGE its oldest entry."""


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_a_scrape_costs_no_redis_scan_and_the_same_whatever_waits(broker: Broker, client: Client) -> None:
    """Counted by the server, what scripts call included."""
    broker.append([message("first")])
    scraped(client)  # its scripts are loaded

    def cost() -> Counter[str]:
        before = _calls(broker)
        scraped(client)
        return _calls(broker) - before

    few = cost()
    for start in range(0, 2000, 500):
        broker.append([message(f"t{number}") for number in range(start, start + 500)])
    many = cost()
    assert scraped(client)["dalston_queue_lag"][tuple(sorted(ECHO.items()))] == 2001
    ignored = {"cmdstat_info", "cmdstat_ping"}
    assert {name: count for name, count in many.items() if name not in ignored} == {
        name: count for name, count in few.items() if name not in ignored
    }
    assert {name.removeprefix("cmdstat_") for name in many} & SCANS == set()


def _calls(broker: Broker) -> Counter[str]:
    found = broker.home.client.info("commandstats")
    return Counter({name: each["calls"] for name, each in found.items()})


@pytest.mark.keeps_keys
@pytest.mark.django_db
def test_the_number_of_stages_has_an_end(broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_STAGES", 2)
    for queue in ("a", "b", "c", "d"):
        broker.append([message(queue=queue)])
    broker.registry.beat_engine(EngineBeat(engine_id="lone.x.0.b", state=EngineState.READY, queues=("d",)))
    depth = scraped(client)["dalston_queue_lag"]
    stages = {dict(labels)["stage"] for labels in depth}
    assert stages == {"a", "d", "other"}, "queues with engines come first"
    assert depth[("priority", "medium"), ("stage", "other")] == 2
