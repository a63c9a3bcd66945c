"""Fixtures for all tests. The servers themselves are started by tests/servers.py."""

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis
from pytest_django import DjangoDbBlocker, Settings

from dalston_site.embedded.server import Server
from dalston_site.embedded.valkey import Valkey
from tests.s3 import s3_env, s3_server
from tests.support import Spawned
from tests.web import web

__all__ = ["s3_env", "s3_server", "web"]  # only here: each module that imports one would start a server of its own

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from dalston_queue.broker import Broker

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Tables are restored after a test by tests/emptying.py, while shared processes may write: after a deadlock that
    Postgres resolves against the restore, it is repeated."""
    from django.core.management import CommandError
    from django.db import OperationalError
    from django.test import TransactionTestCase

    from tests.emptying import remember, restore

    with django_db_blocker.unblock():
        remember()
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def repeated(case: TransactionTestCase) -> None:
        for left in range(4, -1, -1):
            try:
                restore(lambda: flush(case))
                break
            except (CommandError, OperationalError) as error:
                if not left or not any(isinstance(each, OperationalError) for each in (error, error.__cause__)):
                    raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", repeated)
        yield


@pytest.fixture(scope="session")
def redis_url() -> str:
    return os.environ["REDIS_URL"]


@pytest.fixture
def admin_user(db: None) -> "User":
    """For `admin_client`. Without a password: hashing one takes longer than most tests."""
    from django.contrib.auth.models import User

    return User.objects.create_superuser("admin", password=None)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The address of the test database, for processes that a test starts."""
    from django.db import connection

    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}"))


@pytest.fixture
def empty_database() -> Iterator[str]:
    """The address of a database without tables, in the server of the tests."""
    import psycopg

    address = urlsplit(os.environ["DATABASE_URL"])
    name = f"empty_{secrets.token_hex(4)}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(address._replace(path=f"/{name}"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def prefix(request: pytest.FixtureRequest, redis_url: str, settings: Settings) -> Iterator[str]:
    """A key prefix of this test's own. Keys that are left behind fail the test, unless it is marked keeps_keys."""
    name = f"test-{secrets.token_hex(6)}"
    settings.DALSTON_REDIS_PREFIX = name
    yield name
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        left = sorted(client.scan_iter(f"{name}:*", count=1000))
        leaked = [key for key in left if not _is_permanent(client, key)]
        if left:
            client.delete(*left)
    if leaked and not request.node.get_closest_marker("keeps_keys"):
        pytest.fail(f"{len(leaked)} Redis keys were left behind: {', '.join(leaked[:10])}", pytrace=False)


def _is_permanent(client: "redis.Redis", key: str) -> bool:
    """Keys that are kept for ever: empty streams, indexes of names, wake-up tokens, the marker."""
    kind = key.split(":")[1]
    return kind in {"lanes", "stages", "counters", "wake", "marker"} or (
        client.type(key) == "stream" and client.xlen(key) == 0
    )


@pytest.fixture
def broker(redis_url: str, prefix: str) -> "Iterator[Broker]":
    """A broker on this test's prefix; the app's `get_broker()` returns one on the same prefix."""
    from dalston_queue.broker import connect

    broker = connect(redis_url, prefix=prefix)
    yield broker
    broker.close()


@pytest.fixture
def process_env(redis_url: str, prefix: str) -> dict[str, str]:
    """The environment of a process that a test starts: Redis and the test's prefix. Add DATABASE_URL if it needs it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "DALSTON_DEV": "1", "REDIS_URL": redis_url, "DALSTON_REDIS_PREFIX": prefix, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def spawn(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Spawned]]:
    """Start a real process: spawn("manage.py", "runorchestrator", env={…}). A .py file runs with our interpreter."""
    started: list[Spawned] = []

    def start(*argv: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Spawned:
        command: Sequence[str] = [sys.executable, *argv] if argv[0].endswith(".py") or argv[0] == "-m" else argv
        environment = env if env is not None else request.getfixturevalue("process_env")
        started.append(Spawned(command, tmp_path / f"process-{len(started)}.log", environment, cwd))
        return started[-1]

    yield start
    for process in reversed(started):
        process.reap()


@pytest.fixture
def valkey_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start another Valkey, with lines for its configuration: valkey_server({"maxmemory": "5mb"})."""
    started: list[Server] = []

    def start(settings: dict[str, str] | None = None, folder: Path | None = None) -> Server:
        folder = folder or tmp_path / f"valkey-{len(started)}"
        started.append(Server(Valkey(folder, settings), folder))
        return started[-1]

    yield start
    for server in started:
        server.stop()
