"""From submit to completed in Postgres, beside Celery with django-celery-results and Procrastinate."""

import argparse
import json
import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from bench.harness.environment import ROOT, python_of
from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError
from bench.harness.servers import private_server
from bench.pipelines import AUDIT, COMPLETED, NAMES, settings_of
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server

PATIENCE_S = 60.0


def argv(name: str, *action: str) -> list[str]:
    return guarded([python_of(name), "-m", "bench.pipelines.run", name, *action], dies_with=signal.SIGKILL)


@contextmanager
def process(name: str, environment: dict[str, str], *action: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        argv(name, *action), cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


class Database:
    """A database of its own on the private Postgres, for one round of one system."""

    def __init__(self, postgres_url: str, number: int) -> None:
        name = f"round_{number}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # a constant and a number
        self.url = f"{postgres_url.rpartition('/')[0]}/{name}"

    def count(self, query: str) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(query).fetchone()  # type: ignore[call-overload]
        return int(row[0])

    def wait_for(self, query: str, wanted: int) -> float:
        """When the count was reached, by the monotonic clock."""
        end = time.monotonic() + PATIENCE_S
        with psycopg.connect(self.url, autocommit=True) as connection:
            while True:
                row = connection.execute(query).fetchone()  # type: ignore[call-overload]
                now = time.monotonic()
                if row[0] >= wanted:
                    return now
                if now > end:
                    raise PeerError(f"{row[0]} of {wanted} were completed within {PATIENCE_S:.0f} s")
                time.sleep(0.02)


def one_round(name: str, database: Database, environment: dict[str, str], tasks: int) -> tuple[float, float]:
    """Tasks per second from the first submit to the last completed, and of the submits alone."""
    subprocess.run(argv(name, "prepare"), cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    with (
        process(name, environment, "work"),
        process(name, environment, "submit", str(tasks)) as submitter,
    ):
        assert submitter.stdin is not None
        assert submitter.stdout is not None
        if submitter.stdout.readline().strip() != "ready":
            raise PeerError(f"{name} could not submit")
        database.wait_for(COMPLETED[name], 1)
        begin = time.monotonic()
        submitter.stdin.write("\n")
        submitter.stdin.flush()
        elapsed = database.wait_for(COMPLETED[name], tasks + 1) - begin
        return tasks / elapsed, tasks / float(submitter.stdout.readline())


def measure(peers: list[str], *, rounds: int, tasks: int) -> Section:
    section = Section(
        f"Tasks per second, submit to completed in Postgres, {tasks:,} tasks (best of {rounds} rounds)",
        ["", "tasks/s", "of all rounds", "submits/s alone", "rows of history per task"],
    )
    names = ["dalston", *peers]
    rates = {name: Rounds() for name in names}
    submits = {name: Rounds() for name in names}
    history: dict[str, float] = {}
    with private_server() as redis, tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        postgres = Server(Postgres(Path(folder) / "postgres"), Path(folder))
        try:
            for number in range(rounds):
                for position, name in enumerate(names):
                    redis.flush()
                    database = Database(postgres.url, number * len(names) + position)
                    servers = {"DATABASE_URL": database.url, "REDIS_URL": redis.url, "DALSTON_DEV": "1"}
                    try:
                        rate, submit_rate = one_round(name, database, {**os.environ, **servers}, tasks)
                    except PeerError as failed:
                        section.notes.append(f"round {number + 1}, {name}: {failed}")
                        continue
                    rates[name].add(rate)
                    submits[name].add(submit_rate)
                    if name in AUDIT:
                        history[name] = database.count(AUDIT[name]) / (tasks + 1)
        finally:
            postgres.stop()
    for name in names:
        if rates[name].values:
            rows = f"{history[name]:.1f}" if name in history else "none"
            section.rows.append(
                [name, f"{rates[name].best:,.0f}", rates[name].spread, f"{submits[name].best:,.0f}", rows]
            )
    if rates["dalston"].values:
        best = rates["dalston"].best
        section.targets.append(Target(f"{best:,.0f} tasks/s through Postgres (target 1 000)", best >= 1000))
    section.notes += [settings_of(name) for name in names]
    return section


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench pipeline", description=__doc__)
    parser.add_argument("--small", action="store_true", help="one round of few tasks")
    parser.add_argument("--peers", default=",".join(NAMES), help="which peers, by name; empty for none")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    peers = [name for name in options.peers.split(",") if name]
    if unknown := set(peers) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    machine = (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, Postgres and Valkey with fsync as in production"
    )
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, load {os.getloadavg()[0]:.1f}")
    rounds, tasks = options.rounds or (1 if options.small else 3), options.tasks or (300 if options.small else 3_000)
    section = measure(peers, rounds=rounds, tasks=tasks)
    section.show()
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "sections": [vars(section)]}, default=vars, indent=1))


if __name__ == "__main__":
    main()
