"""Requests per second of one web process: POST /tasks and GET /tasks/{id}, beside a bare view that inserts one row."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.apis.batch import batch
from bench.apis.web import Answered, Web, request, serving
from bench.harness.database import Database
from bench.harness.environment import ROOT
from bench.harness.figures import Rounds, Section, Target
from bench.harness.servers import private_server
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server

BODY = {"task_type": "echo", "parameters": {"language": "en", "audio": "s3://bucket/2026/11/16/call-0001.wav"}}
GOAL = 0.6
PRODUCTION = {"DALSTON_DEV": "0", "DALSTON_ALLOWED_HOSTS": "127.0.0.1", "DALSTON_HTTPS": "0"}
BARE = "a bare view's INSERT"
BARE_ONE_STEP = "the same on our handler"


@dataclass
class Figures:
    rate: Rounds = field(default_factory=Rounds)
    p50: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))
    p99: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))
    cpu: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))

    def add(self, answered: Answered) -> None:
        self.rate.add(answered.per_second)
        self.p50.add(answered.p50_ms)
        self.p99.add(answered.p99_ms)
        self.cpu.add(answered.cpu_ms)


def api(*, rounds: int, requests: int, connections: int, batches: int) -> Iterator[Section]:
    with (
        _servers() as (bare, dalston),
        serving("bench.apis.bare.asgi:application", bare, "/api/docs") as plain,
        serving("bench.apis.bare.one_step:application", bare, "/api/docs") as one_step,
        serving("dalston_site.asgi:application", dalston, "/healthz") as web,
    ):
        yield _requests(plain, one_step, web, dalston["BENCH_TOKEN"], rounds, requests, connections)
        yield batch(web, dalston["BENCH_TOKEN"], rounds=rounds, batches=batches)


def _requests(plain: Web, one_step: Web, web: Web, token: str, rounds: int, requests: int, connections: int) -> Section:
    insert = request("POST", "/api/rows", BODY)
    submit = request("POST", "/api/v1/tasks", BODY, token)
    for yardstick in (plain, one_step):
        yardstick.round(insert, 50, connections)  # opens the connections, and imports what is imported late
    first = web.round(submit, 50, connections).last
    read = request("GET", f"/api/v1/tasks/{first['task_id']}", token=token)
    kinds = {
        BARE: (plain, insert),
        BARE_ONE_STEP: (one_step, insert),
        "POST /tasks": (web, submit),
        "GET /tasks/{id}": (web, read),
    }
    figures = {name: Figures() for name in kinds}
    for _ in range(rounds):
        for name, (server, content) in kinds.items():
            figures[name].add(server.round(content, requests, connections))
    section = Section(
        f"Requests per second of one web process, {connections} connections, {requests:,} requests"
        f" (best of {rounds} rounds)",
        ["", "requests/s", "of all rounds", "p50 ms", "p99 ms", "CPU ms per request"],
    )
    bare, on_our_handler = figures[BARE], figures[BARE_ONE_STEP]
    for name, found in figures.items():
        row = [name, f"{found.rate.best:,.0f}", found.rate.spread, f"{found.p50.best:.1f}", f"{found.p99.best:.1f}"]
        section.rows.append([*row, f"{found.cpu.best:.2f}"])
        if name in (BARE, BARE_ONE_STEP):
            continue
        share, same = found.rate.best / bare.rate.best, found.rate.best / on_our_handler.rate.best
        section.targets.append(Target(f"{name} is {share:.0%} of the bare view (target {GOAL:.0%})", share >= GOAL))
        section.notes.append(
            f"{name}: {bare.cpu.best / found.cpu.best:.0%} of it by CPU of the web process;"
            f" {same:.0%} of the bare view on the same handler, by CPU {on_our_handler.cpu.best / found.cpu.best:.0%}"
        )
    return section


@contextmanager
def _servers() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The environments of both web processes, on the same two servers."""
    with private_server() as valkey, tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        postgres = Server(Postgres(Path(folder) / "postgres"), Path(folder))
        try:
            common = {**PRODUCTION, "REDIS_URL": valkey.url, "DALSTON_SECRET_KEY": secrets.token_hex(32)}
            settings = "DJANGO_SETTINGS_MODULE"
            bare = {**common, settings: "bench.apis.bare.settings", "DATABASE_URL": Database(postgres.url, 1).url}
            dalston = {**common, settings: "dalston_site.settings", "DATABASE_URL": Database(postgres.url, 2).url}
            _manage(bare, "migrate", "--run-syncdb", "-v0")
            _manage(dalston, "migrate", "-v0")
            dalston["BENCH_TOKEN"] = _manage(dalston, "token", "create", "--name", "bench", "--project", "bench")
            yield bare, dalston
        finally:
            postgres.stop()


def _manage(environment: Mapping[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()
