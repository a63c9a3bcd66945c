"""A whole installation for one round: a database from a template, one web process, one orchestrator and one engine."""

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from bench.harness.processes import ROOT
from bench.harness.servers import BenchServer
from bench.harness.web import Web, serving
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.server import Server

TEMPLATE = "template_of_rounds"
NODE_PASSWORD = "node"
_HISTORY = """
    WITH jobs AS (
        INSERT INTO dalston_job (id, project_id, name, status, priority, parameters, trace_id, callback_url, progress,
            error, created_at, started_at, finished_at)
        SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %(project)s, 'echo', 'completed',
            'medium', '{}', 'bench', '', 1, '', now(), now(), now()
        FROM generate_series(1, %(count)s) AS n RETURNING id
    )
    INSERT INTO dalston_task (id, job_id, project_id, stage, queue, lane, concurrency_key, task_type, after, required,
        weight, status, priority, effective_priority, required_capabilities, parameters, timeout_seconds, attempt,
        event_seq, max_retries, retry_count, deliveries, node_losses, assigned_worker_id, error, error_type,
        error_cause, created_at, finished_at)
    SELECT id, id, %(project)s, 'echo', 'echo', 'echo', '', 'echo', '{}', true, 1, 'completed', 'medium', 'medium',
        '{}', '{"user": {"id": 7, "name": "ada"}, "audio": "s3://bucket/2026/11/16/call-0001.wav"}', 600, 1, 0, 3, 0, 0,
        0, '', '', '', '', now(), now()
    FROM jobs"""


@dataclass(frozen=True)
class Installation:
    web: Web
    attacker: str  # token
    other: str  # token
    cookie: str
    redis_url: str
    node_url: str


class Rounds:
    """Makes one installation after the other."""

    def __init__(self, valkey: BenchServer, postgres: Server, *, history: int, folder: Path) -> None:
        self._valkey, self._postgres, self._folder = valkey, postgres, folder
        self._number = 0
        self._base = {
            "DALSTON_DEV": "1", "DJANGO_SETTINGS_MODULE": "dalston_site.settings", "REDIS_URL": valkey.url,
            "DALSTON_SECRET_KEY": secrets.token_hex(32), "DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
        }  # fmt: skip
        self._execute(f"CREATE DATABASE {TEMPLATE}")
        url = self._url(TEMPLATE)
        env = {**os.environ, **self._base, "DATABASE_URL": url}
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
        self._tokens = {name: _token(env, name) for name in ("attacker", "other")}
        _output(env, "manage.py", "webhook", "secret", "--project", "attacker")  # without it none is called
        with psycopg.connect(url, autocommit=True) as connection:
            project = connection.execute("SELECT id FROM dalston_project WHERE name = 'attacker'").fetchone()
            connection.execute(_HISTORY, {"project": project and project[0], "count": history})
            connection.execute("VACUUM ANALYZE")
        self._cookie = _session(env)

    @contextmanager
    def installation(self) -> Iterator[Installation]:
        """Every round begins with the same rows and an empty Redis."""
        self._number += 1
        name = f"round_{self._number}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        self._valkey.flush()
        node_url = node_user(self._valkey.url)
        with tempfile.TemporaryDirectory(dir=self._folder) as store, ExitStack() as stack:
            env = {**self._base, "DATABASE_URL": self._url(name), "DALSTON_ARTIFACTS_URL": Path(store).as_uri()}
            stack.enter_context(_running(env, "manage.py", "runorchestrator"))
            stack.enter_context(_running(env, "-m", "engines.sdk", "run", str(ROOT / "engines/demo/engine.yaml")))
            web = stack.enter_context(serving("dalston_site.asgi:application", env, "/healthz"))
            yield Installation(
                web, self._tokens["attacker"], self._tokens["other"], self._cookie, self._valkey.url, node_url
            )
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _url(self, name: str) -> str:
        return f"{self._postgres.url.rpartition('/')[0]}/{name}"

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL(statement))  # names of ours


def _token(environment: Mapping[str, str], project: str) -> str:
    argv = ["manage.py", "token", "create", "--name", project, "--project", project, "--scope", "read"]
    return _output(environment, *argv, "--scope", "submit")


def _session(environment: Mapping[str, str]) -> str:
    """The session of a viewer."""
    code = (
        "import django; django.setup(); from django.contrib.auth.models import User; from django.test import Client;"
        "c = Client(); c.force_login(User.objects.create_user('viewer', password='of the bench'));"
        "print(c.cookies['sessionid'].value)"
    )
    return _output(environment, "-c", code)


def _output(environment: Mapping[str, str], *argv: str) -> str:
    command = [sys.executable, *argv]
    done = subprocess.run(command, cwd=ROOT, env={**environment}, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def node_user(url: str) -> str:
    """The user of docs/redis-keys.md."""
    page = (ROOT / "docs/redis-keys.md").read_text()
    found = re.search(r"^ACL SETUSER dalston-node (.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    rules = found[1].replace("PASSWORD", NODE_PASSWORD).split()
    with redis.Redis.from_url(url) as client:
        client.execute_command("ACL SETUSER", "dalston-node", "reset", *rules)
    return re.sub(r"//:[^@]*@", f"//dalston-node:{NODE_PASSWORD}@", url)


@contextmanager
def _running(environment: Mapping[str, str], *argv: str) -> Iterator[None]:
    process = subprocess.Popen(
        guarded([sys.executable, *argv], dies_with=signal.SIGKILL), cwd=ROOT, env={**os.environ, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()
