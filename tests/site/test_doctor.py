"""manage.py doctor on a server: what it finds on real servers, what it says to do, and its exit code."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from dalston_site.embedded.server import Server
from dalston_site.support import doctor
from supervisor.findings import Grade, clock
from tests.conftest import ROOT
from tests.site.settings.production import PRODUCTION
from tests.support import reserve_port


@pytest.fixture
def production(transactional_db: None, settings: Settings, tmp_path: Path, prefix: str) -> Settings:
    settings.DALSTON_DEV = False
    settings.SECRET_KEY = PRODUCTION["DALSTON_SECRET_KEY"]
    settings.ALLOWED_HOSTS = ["dalston.example.com"]
    settings.STATIC_ROOT = str(tmp_path / "static")
    return settings


def examined() -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("doctor", stdout=out)
    return int(left.value.code or 0), out.getvalue()


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env = {**kept, **PRODUCTION, **variables}
    argv = [sys.executable, "manage.py", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def empty_database() -> Iterator[str]:
    base = os.environ["DATABASE_URL"]
    with psycopg.connect(base, autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS doctor")
        admin.execute("CREATE DATABASE doctor")
        yield urlsplit(base)._replace(path="/doctor").geturl()
        admin.execute("DROP DATABASE doctor WITH (FORCE)")


def test_a_server_is_led_from_nothing_to_well(
    empty_database: str, valkey_server: Callable[..., Server], tmp_path: Path
) -> None:
    env = {"DALSTON_STATIC_ROOT": str(tmp_path / "static"), "REDIS_URL": valkey_server().url}
    env["DALSTON_ARTIFACTS_URL"] = (tmp_path / "artifacts").as_uri()
    unreachable = run("doctor", **env, DATABASE_URL=f"postgres://me:pw@127.0.0.1:{reserve_port()}/dalston")
    assert unreachable.returncode == 2 and "Traceback" not in unreachable.stderr
    assert "broken    postgres: connection failed" in unreachable.stdout and "check DATABASE_URL" in unreachable.stdout
    env["DATABASE_URL"] = empty_database
    fresh = run("doctor", **env)
    assert fresh.returncode == 2
    assert "run manage.py migrate" in fresh.stdout and "run manage.py collectstatic" in fresh.stdout
    assert run("migrate", **env).returncode == 0
    assert run("collectstatic", "--noinput", **env).returncode == 0
    well = run("doctor", **env)
    assert well.returncode == 0, well.stdout
    subjects = {line.split()[1].rstrip(":") for line in well.stdout.splitlines()}
    assert subjects == {"settings", "secrets", "postgres", "artifacts", "clock", "migrations", "redis", "static"}


def test_each_bad_setting_is_broken_with_its_hint(production: Settings) -> None:
    production.SECRET_KEY = "short"
    production.DALSTON_HEARTBEAT_S = 15.0
    code, text = examined()
    assert code == 2
    assert (
        "broken    settings: DALSTON_SECRET_KEY is missing or weak (5 characters)" in text and "token_urlsafe" in text
    )
    assert "(dalston.E201)" in text
    assert "short" not in text.replace("shorten", "")


def test_a_redis_that_may_lose_work_is_degraded(production: Settings, valkey_server: Callable[..., Server]) -> None:
    production.REDIS_URL = valkey_server({"maxmemory-policy": "allkeys-lru", "appendonly": "no"}).url
    code, text = examined()
    assert code == 1
    assert "degraded  redis:" in text and "set it to noeviction" in text and "writes no append-only file" in text


def test_a_redis_that_is_away_is_broken(production: Settings) -> None:
    production.REDIS_URL = f"redis://127.0.0.1:{reserve_port()}/0"
    code, text = examined()
    assert (code, "broken    redis: " in text, "check REDIS_URL" in text) == (2, True, True)


def test_a_database_of_a_newer_version_is_named(production: Settings) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('dalston_queue', '9999_later', now())"
        )
    try:
        assert "the database has dalston_queue.9999_later, which this version does not know" in examined()[1]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_migrations WHERE name = '9999_later'")


def test_a_file_of_secrets_that_others_can_read_is_named(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "server.env"
    file.touch(0o640)
    (found,) = doctor.secrets(tmp_path)
    assert found.grade is Grade.DEGRADED and f"chmod 600 {file}" in found.text
    file.chmod(0o600)
    assert [found.grade for found in doctor.secrets(tmp_path)] == [Grade.OK]
    settings.REDIS_URL = "redis://redis.example:6379/0"
    (found,) = doctor.secrets(tmp_path)
    assert found.grade is Grade.DEGRADED and found.text.startswith("REDIS_URL has no password")


@pytest.mark.parametrize(
    ("url", "is_open"),
    [
        ("redis://127.0.0.1:6379/0", False),
        ("redis://localhost:6379/0", False),
        ("unix:///run/redis.sock", False),
        ("redis://:pw@redis.example:6379/0", False),
        ("redis+sentinel://127.0.0.1:26379,10.0.0.7:26379/dalston/0", True),
        ("postgres://dalston@db.example/dalston", True),
        ("postgres://dalston@db.example/dalston?sslcert=/etc/x.crt", False),
        ("", False),
    ],
)
def test_a_server_elsewhere_must_ask_for_a_password(url: str, is_open: bool) -> None:
    assert doctor._is_open(url) is is_open


def test_a_clock_that_is_off_is_degraded() -> None:
    assert clock("Redis", 0.5).grade is Grade.OK
    assert clock("Redis", -3.0).grade is Grade.DEGRADED and "-3.0 s from ours" in clock("Redis", -3.0).text


def test_an_option_of_a_node_asks_for_a_node(production: Settings, tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--state-dir", str(tmp_path), stdout=out)
    assert "setpriv" in out.getvalue() and "postgres" not in out.getvalue()
