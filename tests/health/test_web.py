"""/healthz and /readyz of the web process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import Redis

from dalston_site.embedded.server import Server
from tests.api.errors.freezing import FreezingProxy
from tests.conftest import ROOT
from tests.health.ask import BOUND_S, a_migration_missing, ask, becomes, reason, status, timed
from tests.support import Spawned, keeps_time, wait_until
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_check_is_named_and_well(web: Web, redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:  # other tests have left events, which no orchestrator reads
        client.delete("no such key", *client.scan_iter(f"{web.prefix}:events:*"))
    assert ask(web.port, "/healthz") == (200, {"status": "ok", "process": "web", "checks": {}})
    code, found = ask(web.port, "/readyz")
    assert code == 200
    names = ["postgres", "migrations", "redis", "events", "threads"]
    assert list(found["checks"].items()) == [(name, {"status": "ok"}) for name in names]


@pytest.mark.parametrize("host", ["10.1.2.3:8000", "evil.example", "[::1]", "a" * 300])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_any_host_is_answered(web: Web, path: str, host: str) -> None:
    assert ask(web.port, path, host)[0] == 200


def test_only_reading_is_allowed(web: Web) -> None:
    assert ask(web.port, "/readyz", method="HEAD") == (200, {})
    assert ask(web.port, "/readyz", method="POST") == (405, {})


def test_answers_come_over_plain_http_in_production(tmp_path: Path) -> None:
    """A load balancer asks by IP and without TLS, while pages are redirected to https."""
    production = {**environment(), "DALSTON_HTTPS": "1"}
    served = Web(production, tmp_path / "log")
    try:
        assert ask(served.port, "/healthz", "10.1.2.3")[0] == 200
        with served.client() as client:
            assert client.get("/login/").status_code == 301
    finally:
        served.process.stop()
        served.process.reap()


@pytest.fixture
def own_web(tmp_path: Path, valkey_server: Callable[..., Server]) -> Iterator[Callable[..., Web]]:
    started: list[Web] = []

    def start(**variables: str) -> Web:
        started.append(Web({**environment(), **variables}, tmp_path / "log"))
        return started[-1]

    yield start
    for each in started:
        each.process.reap()


def test_a_missing_redis_is_named_and_the_process_lives(
    own_web: Callable[..., Web], valkey_server: Callable[..., Server]
) -> None:
    server = valkey_server()
    web = own_web(REDIS_URL=server.url)
    server.stop()
    becomes(web.port, "/readyz", 503)
    assert reason(web.port, "/readyz", "redis") == "does not answer"
    assert reason(web.port, "/readyz", "events") == "unknown: Redis does not answer"
    assert reason(web.port, "/readyz", "postgres") == ""
    assert ask(web.port, "/healthz")[0] == 200


def test_a_redis_that_hangs_delays_no_answer(own_web: Callable[..., Web], valkey_server: Callable[..., Server]) -> None:
    server = valkey_server()
    web = own_web(REDIS_URL=server.url)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        becomes(web.port, "/readyz", 503)
        keeps_time(BOUND_S, lambda: timed(web.port, "/readyz"))
        keeps_time(1.0, lambda: timed(web.port, "/healthz"))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    becomes(web.port, "/readyz", 200)


def test_a_postgres_that_hangs_delays_no_answer(own_web: Callable[..., Web]) -> None:
    """Nor does the answer tell names, addresses or secrets."""
    env = environment()
    proxy = FreezingProxy(env["DATABASE_URL"])
    try:
        web = own_web(DATABASE_URL=proxy.url)
        proxy.freeze()
        becomes(web.port, "/readyz", 503)
        text = str(ask(web.port, "/readyz"))
        database = urlsplit(env["DATABASE_URL"])
        for secret in (database.path, database.password or "password", env["REDIS_URL"], "127.0.0.1"):
            assert secret not in text
        keeps_time(BOUND_S, lambda: timed(web.port, "/readyz"))
        keeps_time(1.0, lambda: timed(web.port, "/healthz"))
        proxy.thaw()
        becomes(web.port, "/readyz", 200)
    finally:
        proxy.close()


def test_a_missing_migration_is_counted(web: Web) -> None:
    with a_migration_missing():
        wait_until(lambda: status(web.port, "/readyz") == 503, what="not ready")
        assert reason(web.port, "/readyz", "migrations") == "1 not applied: manage.py migrate"
        assert ask(web.port, "/healthz")[0] == 200
    becomes(web.port, "/readyz", 200)


def test_a_process_that_is_stopped_answers_nothing(own_web: Callable[..., Web]) -> None:
    web = own_web()
    web.process.send(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        ask(web.port, "/healthz", timeout=1)
    web.process.send(signal.SIGCONT)
    becomes(web.port, "/healthz", 200)


def test_readiness_drops_before_the_port_closes(spawn: Callable[..., Spawned], own_web: Callable[..., Web]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = ["-m", "dalston_site.web", "--port", str(port), "--drain-seconds"]
    process = spawn(*argv, "60", env=environment(), cwd=ROOT)
    becomes(port, "/readyz", 200)
    process.send(signal.SIGTERM)
    wait_until(lambda: reason(port, "/readyz", "stopping") == "is stopping", what="not ready")
    assert ask(port, "/healthz")[0] == 200
    process.send(signal.SIGTERM)  # ends the time
    process.wait()
    again = spawn(*argv, "0.1", env=environment(), cwd=ROOT)
    becomes(port, "/readyz", 200)
    again.stop()
    assert "Traceback" not in process.output + again.output
