"""A real web process for tests: uvicorn on a free port, on the test database and a key prefix of its own.

It lives as long as the test run. Tests that use it need `django_db(transaction=True)`, or it would not see their rows.
"""

from __future__ import annotations

import http.client
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import django.test
import httpx
import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.support import Spawned, reserve_port, wait_until

if TYPE_CHECKING:
    from django.contrib.auth.models import User  # can't be imported before the apps are loaded

ROOT = Path(__file__).resolve().parent.parent


class Web:
    def __init__(
        self, env: Mapping[str, str], log: Path, *, status: int = 200, before: str = "", options: Sequence[str] = ()
    ) -> None:
        """`status`: the expected answer of /readyz; 503 if its servers are missing. `before`: code that runs first."""
        self._status, self._before, self._options = status, before, list(options)
        self.port = reserve_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env, self._log = dict(env), log
        self.prefix = self.env.get("DALSTON_REDIS_PREFIX", "")
        self.process = self.start()

    def start(self) -> Spawned:
        listen = ["--port", str(self.port), *self._options]
        argv = [sys.executable, "-m", "dalston_site.web", *listen]
        if self._before:
            code = f"{self._before}; from dalston_site.web.__main__ import main; main({listen})"
            argv = [sys.executable, "-c", code]
        self.process = Spawned(argv, self._log, self.env, ROOT)
        try:
            wait_until(self._answers, 60, "the web process answers")
        except BaseException:
            self.process.stop()  # no fixture would stop it
            self.process.reap()
            raise
        return self.process

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=40)

    @contextmanager
    def log_in(self, user: User) -> Iterator[httpx.Client]:
        """A client with a session, as a browser has it after the login form: its two hashes of a password take longer
        than most tests."""
        browser = django.test.Client()
        browser.force_login(user)
        with self.client() as client:
            client.cookies["sessionid"] = browser.cookies["sessionid"].value
            yield client

    def _answers(self) -> bool:
        assert self.process.running(), self.process.output
        # Not httpx.get: it reads all certificates of the machine for each request, which slows the start down.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == self._status
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def environment() -> dict[str, str]:
    """The environment of a web process on the test database, with a key prefix of its own."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "REDIS_URL") if name in os.environ}
    prefix = f"test-{secrets.token_hex(6)}"
    store = Path(tempfile.mkdtemp(prefix="dalston-artifacts-"))
    return {
        **env,
        "DALSTON_DEV": "1",
        "DATABASE_URL": urlunsplit(database),
        "DALSTON_REDIS_PREFIX": prefix,
        "DALSTON_ARTIFACTS_URL": store.as_uri(),
    }


@pytest.fixture(scope="session")
def web(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    with django_db_blocker.unblock():
        env = environment()
    server = Web(env, tmp_path_factory.mktemp("web") / "log")
    yield server
    server.process.stop()
    server.process.reap()
    shutil.rmtree(urlsplit(env["DALSTON_ARTIFACTS_URL"]).path)
