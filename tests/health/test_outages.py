"""An outage is a line when it begins and a line when it ends, in each process, and no traceback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError, connection
from structlog.testing import capture_logs

from dalston_queue.broker import connect
from dalston_queue.health import outages
from dalston_site.embedded.server import Server
from tests.health.ask import becomes
from tests.orchestrator.conftest import orchestrators
from tests.orchestrator.processes import Orchestrators
from tests.supervisor.node import Node
from tests.support import Spawned, reserve_port, wait_until
from tests.web import Web

__all__ = ["orchestrators"]

pytestmark = pytest.mark.django_db(transaction=True)

AWAY = ("a server does not answer", "is away")
BACK = ("a server answers again", "is back")


@pytest.mark.keeps_keys
@pytest.mark.parametrize("seconds", [pytest.param(3, id="short"), pytest.param(20, marks=pytest.mark.slow)])
def test_each_process_logs_a_lost_redis_once_and_its_return_once(
    orchestrators: Orchestrators,
    valkey_server: Callable[..., Server],
    spawn: Callable[..., Spawned],
    process_env: dict[str, str],
    database_url: str,
    tmp_path: Path,
    seconds: int,
) -> None:
    server = valkey_server()
    redis: Any = {"REDIS_URL": server.url}
    web = Web({**process_env, **redis, "DATABASE_URL": database_url}, tmp_path / "web.log")
    orchestrator = orchestrators.start(**redis)
    port = reserve_port()
    housekeeping = orchestrators.command(
        "run_huey", DALSTON_SCAN_INTERVAL_S="1", DALSTON_METRICS_ADDRESS=f"127.0.0.1:{port}", **redis
    )
    becomes(port, "/readyz", 200)
    broker = connect(server.url, prefix=process_env["DALSTON_REDIS_PREFIX"])
    node = Node(broker, spawn, {**process_env, **redis, "DALSTON_HEARTBEAT_S": "0.2"}, tmp_path, "node-a")
    node.engine("fix")
    supervisor = node.start()
    node.ready()
    processes = {"web": web.process, "orchestrator": orchestrator, "huey": housekeeping, "supervisor": supervisor}

    def texts() -> dict[str, str]:
        return {**{name: each.output for name, each in processes.items()}, "engine": node.all_logs()}

    def counts(words: tuple[str, ...]) -> dict[str, int]:
        return {name: sum(text.count(word) for word in words) for name, text in texts().items()}

    try:
        server.process.kill()
        server.process.wait()
        gone_at = time.monotonic()
        becomes(web.port, "/readyz", 503)
        everyone = ("orchestrator", "huey", "supervisor", "engine")
        wait_until(lambda: all(counts(AWAY)[name] for name in everyone), what=lambda: f"all have noticed: {texts()}")
        wait_until(lambda: time.monotonic() - gone_at > seconds, what="the end of the outage")
        assert not any(counts(BACK).values())
        at = int(urlsplit(server.url).port or 0)
        server._spawn(server.recipe.command(at))
        wait_until(lambda: all(counts(BACK)[name] for name in everyone), what=lambda: f"all are back: {texts()}")
        node.clean()
        for each in (web.process, orchestrator, housekeeping):
            each.stop()
        for name in everyone:
            assert (counts(AWAY)[name], counts(BACK)[name]) == (1, 1), f"{name}: {texts()[name]}"
        for name, text in texts().items():
            assert "Traceback" not in text, f"{name}: {text}"
    finally:
        web.process.reap()
        broker.close()


def test_a_connection_that_an_earlier_outage_broke_is_none(transactional_db: None) -> None:
    with capture_logs() as logged:
        assert outages.report(OperationalError("terminating connection"))
        wait_until(lambda: not outages._postgres._is_watched, what="Postgres was asked")
    assert logged == []


def test_a_statement_that_took_too_long_is_no_outage(transactional_db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 10")
        with pytest.raises(OperationalError) as raised:
            cursor.execute("SELECT pg_sleep(5)")
        cursor.execute("RESET statement_timeout")
    assert not outages.report(raised.value)
