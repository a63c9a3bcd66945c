"""Requests per second of one web process, beside a bare django-ninja view that inserts one row."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import ROOT
from bench.harness.run import Command, Run
from bench.harness.servers import Database, private_postgres, private_valkey
from bench.harness.web import Responses, Web, request, serving

PARAMETERS = {"language": "en", "audio": "s3://bucket/2026/11/16/call-0001.wav"}
TASK = {"task_type": "echo", "parameters": PARAMETERS}
BATCH_JOBS = 1_000
MIN_SHARE, MIN_TASKS_PER_S = 1.5, 3_000
PRODUCTION = {"DALSTON_DEV": "0", "DALSTON_ALLOWED_HOSTS": "127.0.0.1", "DALSTON_HTTPS": "0"}
BARE = "a bare view's INSERT"
BARE_ONE_STEP = "the same on our handler"


@dataclass
class Figures:
    rate: Rounds = field(default_factory=Rounds)
    p50: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))
    p99: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))
    cpu: Rounds = field(default_factory=lambda: Rounds(smaller_is_better=True))

    def add(self, responses: Responses) -> None:
        self.rate.add(responses.per_second)
        self.p50.add(responses.p50_ms)
        self.p99.add(responses.p99_ms)
        self.cpu.add(responses.cpu_ms)


def api(*, rounds: int, requests: int, connections: int, batches: int) -> Iterator[Section]:
    with (
        _servers() as (bare, dalston),
        serving("bench.bare:application", bare, "/api/docs", "--factory") as plain,
        serving("bench.bare:one_step", bare, "/api/docs", "--factory") as one_step,
        serving("dalston_site.asgi:application", dalston, "/readyz") as web,
    ):
        yield _requests(plain, one_step, web, dalston["BENCH_TOKEN"], rounds, requests, connections)
        yield batch(web, dalston["BENCH_TOKEN"], rounds=rounds, batches=batches)


def _requests(plain: Web, one_step: Web, web: Web, token: str, rounds: int, requests: int, connections: int) -> Section:
    insert = request("POST", "/api/rows", TASK)
    submit = request("POST", "/api/v1/tasks", TASK, token)
    for reference in (plain, one_step):
        reference.round(insert, 50, connections)  # opens the connections, and runs late imports
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
        section.targets.append(
            Target(f"{name} is {share:.0%} of the bare view (target {MIN_SHARE:.0%})", share >= MIN_SHARE)
        )
        section.notes.append(
            f"{name}: {bare.cpu.best / found.cpu.best:.0%} of it by CPU of the web process;"
            f" {same:.0%} of the bare view on the same handler, by CPU {on_our_handler.cpu.best / found.cpu.best:.0%}"
        )
    return section


def batch(web: Web, token: str, *, rounds: int, batches: int) -> Section:
    """POST /jobs:batch, from one client that sends one batch after the other."""
    job = {"name": "bench", "stages": [{"stage": "echo", "parameters": PARAMETERS}]}
    body: dict[str, Any] = {"jobs": [job] * BATCH_JOBS}
    content = request("POST", "/api/v1/jobs:batch", body, token)
    rate, cpu = Rounds(), Rounds(smaller_is_better=True)
    for _ in range(rounds):
        responses = web.round(content, batches, 1)
        rate.add(responses.per_second * BATCH_JOBS)
        cpu.add(responses.cpu_ms / BATCH_JOBS)
    text = f"{rate.best:,.0f} tasks/s into Postgres (target {MIN_TASKS_PER_S:,})"
    return Section(
        f"POST /jobs:batch, {batches} batches of {BATCH_JOBS:,} jobs of one task (best of {rounds} rounds)",
        ["", "tasks/s", "of all rounds", "CPU ms per task"],
        [["one client", f"{rate.best:,.0f}", rate.spread, f"{cpu.best:.3f}"]],
        [Target(text, rate.best >= MIN_TASKS_PER_S)],
    )


@contextmanager
def _servers() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The environments of both web processes, on the same two servers."""
    with private_valkey() as valkey, private_postgres() as postgres:
        common = {**PRODUCTION, "REDIS_URL": valkey.url, "DALSTON_SECRET_KEY": secrets.token_hex(32)}
        settings = "DJANGO_SETTINGS_MODULE"
        bare = {**common, settings: "bench.bare.settings", "DATABASE_URL": Database(postgres.url, 1).url}
        dalston = {**common, settings: "dalston_site.settings", "DATABASE_URL": Database(postgres.url, 2).url}
        _manage(bare, "migrate", "--run-syncdb", "-v0")
        _manage(dalston, "migrate", "-v0")
        dalston["BENCH_TOKEN"] = _manage(dalston, "token", "create", "--name", "bench", "--project", "bench")
        yield bare, dalston


def _manage(environment: Mapping[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> None:
    command = Command("api", __doc__)
    command.add_argument("--rounds", type=int, help="of each kind of request")
    command.add_argument("--requests", type=int, help="in a round")
    command.add_argument("--connections", type=int, default=8, help="kept alive, each with one request at a time (8)")
    options = command.parse(arguments)
    small = options.small
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    sections = api(
        rounds=options.rounds or (1 if small else 4),
        requests=options.requests or (100 if small else 1_500),
        connections=options.connections,
        batches=1 if small else 5,
    )
    for section in sections:
        run.add(section)
    run.finish(options.json)


if __name__ == "__main__":
    main()
