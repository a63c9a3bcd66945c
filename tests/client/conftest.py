"""Fixtures of the client's tests: all processes of `./dev up` with the demo engine, and a shell to run `dalston` in."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from dalston_client import Client
from dalston_client.cli.main import main
from tests.conftest import ROOT
from tests.e2e.conftest import Up
from tests.support import reserve_port

MISSING = "00000000-0000-7000-8000-000000000000"
"""An id that does not exist."""
COMMAND = Path(sys.executable).parent / "dalston"


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.stderr)["error"]


class Shell:
    """Runs the installed command as a user's shell does: a real process, without a terminal."""

    def __init__(self, **env: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self.env = {**kept, **env}

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [COMMAND, *arguments],
            env={**self.env, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **more: str) -> Done:
        with self.start(*arguments, **more) as process:
            stdout, stderr = process.communicate(timeout=40)
        assert "Traceback" not in stderr, stderr
        return Done(process.returncode, stdout, stderr)

    def call(self, *arguments: str, **more: str) -> Done:
        """The same inside of this process: a process takes half a second of CPU to start."""
        stdout, stderr = StringIO(), StringIO()
        with patch.dict(os.environ, {**self.env, **more}), redirect_stdout(stdout), redirect_stderr(stderr):
            try:
                code = main(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
        return Done(code, stdout.getvalue(), stderr.getvalue())


def make_token(up: Up, project: str, scope: str, *options: str) -> str:
    command = ("token", "create", "--project", project, "--name", "test", "--scope", scope, *options)
    env = {**os.environ, **up.env}
    made = subprocess.run([sys.executable, "manage.py", *command], env=env, cwd=ROOT, capture_output=True, check=True)
    return made.stdout.decode().strip()


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """On the servers of the test run, with a database and a key prefix of its own."""
    name = f"client_{secrets.token_hex(6)}"
    folder = tmp_path_factory.mktemp("client")
    one = Up(folder / "data", reserve_port(), folder)
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute(f"CREATE DATABASE {name}")
        database = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))
        one.ready(env={"DATABASE_URL": database, "REDIS_URL": os.environ["REDIS_URL"], "DALSTON_REDIS_PREFIX": name})
        yield one
        one.reap()
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="package")
def shell(up: Up) -> Shell:
    return Shell(DALSTON_URL=up.env["DALSTON_URL"], DALSTON_TOKEN=up.env["DALSTON_TOKEN"])


@pytest.fixture
def client(up: Up) -> Iterator[Client]:
    with Client(up.env["DALSTON_URL"], up.env["DALSTON_TOKEN"]) as client:
        yield client
