"""/healthz and /readyz of orchestrators and housekeeping, beside their /metrics."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.db import connection, transaction

from dalston_queue.broker import Broker
from dalston_site.embedded.server import Server
from tests.health.ask import BOUND_S, a_migration_missing, ask, becomes, reason, status, timed
from tests.jobs import make
from tests.orchestrator.conftest import orchestrators
from tests.orchestrator.processes import Orchestrators
from tests.support import Spawned, keeps_time, reserve_port, wait_until

__all__ = ["orchestrators"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]

NAMES = ("runorchestrator", "run_huey")


@dataclass
class Running:
    process: Spawned
    port: int


@pytest.fixture
def start(orchestrators: Orchestrators) -> Callable[..., Running]:
    def run(name: str, port: int = 0, ready: bool = True, **variables: str) -> Running:
        port = port or reserve_port()
        process = orchestrators.command(name, DALSTON_METRICS_ADDRESS=f"127.0.0.1:{port}", **variables)
        wait_until(lambda: status(port, "/readyz") in ((200,) if ready else (200, 503)), what=lambda: process.output)
        return Running(process, port)

    return run


@contextmanager
def table_locked(name: str) -> Iterator[None]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize(
    ("name", "process", "loops"),
    [
        ("runorchestrator", "orchestrator", ["main loop", "recovery", "alerts", "notifications", "webhooks"]),
        ("run_huey", "housekeeping", ["worker"]),
    ],
)
def test_each_loop_and_each_server_is_named(
    start: Callable[..., Running], name: str, process: str, loops: list[str]
) -> None:
    running = start(name)
    code, found = ask(running.port, "/healthz", host="10.0.0.1")
    assert (code, found["process"], list(found["checks"])) == (200, process, loops)
    code, found = ask(running.port, "/readyz", host="evil.example")
    assert (code, found["status"]) == (200, "ok")
    assert list(found["checks"]) == [*loops, "postgres", "migrations", "redis", "events"]


def test_a_statement_that_hangs_fails_the_orchestrator_until_it_ends(start: Callable[..., Running]) -> None:
    running = start("runorchestrator", DALSTON_STUCK_AFTER_S="1.5")
    with table_locked("dalston_job"):
        wait_until(lambda: status(running.port, "/healthz") == 503, what="the loop stands still")
        assert reason(running.port, "/healthz", "main loop").startswith("stands still for ")
        keeps_time(BOUND_S, lambda: timed(running.port, "/readyz"))
    becomes(running.port, "/healthz", 200)


def test_an_orchestrator_that_starts_before_its_migrations_waits_for_them(start: Callable[..., Running]) -> None:
    with a_migration_missing():
        running = start("runorchestrator", ready=False, DALSTON_STUCK_AFTER_S="1")
        assert reason(running.port, "/readyz", "migrations") == "1 not applied: manage.py migrate"
        running.process.wait_for("waiting for migrations")
        assert ask(running.port, "/healthz")[0] == 200
        assert "orchestrator ready" not in running.process.output
    running.process.wait_for("orchestrator ready")
    becomes(running.port, "/readyz", 200)


def test_a_duty_that_hangs_fails_housekeeping(start: Callable[..., Running]) -> None:
    with table_locked("dalston_duty"):
        port = reserve_port()
        running = start("run_huey", port, DALSTON_STUCK_AFTER_S="1", DALSTON_SCAN_INTERVAL_S="1")
        wait_until(lambda: status(port, "/healthz") == 503, what=lambda: running.process.output)
        assert reason(port, "/healthz", "worker").startswith("stands still for ")
    becomes(port, "/healthz", 200)


def test_a_stopped_orchestrator_answers_nothing_and_comes_back(start: Callable[..., Running]) -> None:
    running = start("runorchestrator")
    running.process.send(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        ask(running.port, "/healthz", timeout=1)
    running.process.send(signal.SIGCONT)
    becomes(running.port, "/healthz", 200)


def test_readiness_drops_while_an_orchestrator_ends_and_comes_back_with_the_next(start: Callable[..., Running]) -> None:
    running = start("runorchestrator")
    with table_locked("dalston_job"):
        wait_until(_waits_for_a_lock, what="the orchestrator is within a statement")
        running.process.send(signal.SIGTERM)
        becomes(running.port, "/readyz", 503)
        assert reason(running.port, "/readyz", "stopping") == "is stopping"
        assert ask(running.port, "/healthz")[0] == 200
    assert running.process.wait() == 0
    start("runorchestrator", running.port)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_redis_is_no_reason_to_restart(
    start: Callable[..., Running], valkey_server: Callable[..., Server], name: str
) -> None:
    server = valkey_server()
    running = start(name, REDIS_URL=server.url)
    server.stop()
    becomes(running.port, "/readyz", 503)
    assert reason(running.port, "/readyz", "redis") == "does not answer"
    assert ask(running.port, "/healthz")[0] == 200


def test_events_that_wait_fail_orchestrators_and_only_show_elsewhere(
    start: Callable[..., Running], broker: Broker
) -> None:
    housekeeping = start("run_huey", DALSTON_STUCK_AFTER_S="1")
    make.single()
    wait_until(lambda: reason(housekeeping.port, "/readyz", "events"), what="the event is late")
    code, found = ask(housekeeping.port, "/readyz")
    assert (code, found["status"]) == (200, "degraded")
    assert found["checks"]["events"]["reason"].startswith("the oldest has waited for an orchestrator for ")
    with table_locked("dalston_job"):
        orchestrator = start("runorchestrator", ready=False, DALSTON_STUCK_AFTER_S="1")
        wait_until(lambda: reason(orchestrator.port, "/readyz", "events"), what="late for the orchestrator, too")
        assert ask(orchestrator.port, "/readyz")[0] == 503
    becomes(orchestrator.port, "/readyz", 200)
    becomes(housekeeping.port, "/readyz", 200)


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])
