"""How many tasks a second go all the way: submitted, dispatched, run, and completed in Postgres with their history."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.cpu import cpu_seconds
from bench.harness.database import Database
from bench.harness.environment import ROOT, python_of
from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError
from bench.harness.servers import private_server
from bench.pipelines import AUDIT, COMPLETED, settings_of
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server


@dataclass
class Figures:
    """What the rounds of one system gave."""

    rate: Rounds = field(default_factory=Rounds)
    submits: Rounds = field(default_factory=Rounds)
    cpu_ms: dict[str, Rounds] = field(default_factory=dict)  # per task, by who spends it
    history: str = "none"


def pipeline(peers: list[str], *, rounds: int, tasks: int) -> Section:
    names = ["dalston", *peers]
    figures = {name: Figures() for name in names}
    section = Section(
        f"Tasks per second, submit to completed in Postgres, {tasks:,} tasks (best of {rounds} rounds)",
        ["", "tasks/s", "of all rounds", "CPU ms per task", "submits/s", "rows of history per task"],
    )
    with private_server() as valkey, tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        postgres = Server(Postgres(Path(folder) / "postgres"), Path(folder))
        servers = {"Postgres": postgres.pid, "Valkey": valkey.pid}
        try:
            for number in range(rounds):
                for position, name in enumerate(names):
                    valkey.flush()
                    database = Database(postgres.url, number * len(names) + position)
                    addresses = {"DATABASE_URL": database.url, "REDIS_URL": valkey.url, "DALSTON_DEV": "1"}
                    try:
                        _round(name, database, {**os.environ, **addresses}, tasks, servers, figures[name])
                    except PeerError as failed:
                        section.notes.append(f"round {number + 1}, {name}: {failed}")
        finally:
            postgres.stop()
    for name in names:
        found = figures[name]
        if found.rate.values:
            cpu = sum(part.best for part in found.cpu_ms.values())
            row = [name, f"{found.rate.best:,.0f}", found.rate.spread, f"{cpu:.2f}", f"{found.submits.best:,.0f}"]
            section.rows.append([*row, found.history])
            parts = ", ".join(f"{who} {part.best:.2f}" for who, part in found.cpu_ms.items())
            section.notes.append(f"CPU ms per task of {name}: {parts}")
    if figures["dalston"].rate.values:
        best = figures["dalston"].rate.best
        section.targets.append(Target(f"{best:,.0f} tasks/s through Postgres (target 1 000)", best >= 1000))
    section.notes += [settings_of(name) for name in names]
    return section


def _round(
    name: str, database: Database, environment: dict[str, str], tasks: int, servers: dict[str, int], figures: Figures
) -> None:
    subprocess.run(_argv(name, "prepare"), cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    with (
        _process(name, environment, "work") as worker,
        _process(name, environment, "submit", str(tasks)) as submitter,
    ):
        assert submitter.stdin is not None
        assert submitter.stdout is not None
        if submitter.stdout.readline().strip() != "ready":
            raise PeerError("it could not submit")
        database.wait_for(COMPLETED[name], 1)
        pids = {"submitter": submitter.pid, "workers": worker.pid, **servers}
        before = {who: cpu_seconds([pid]) for who, pid in pids.items()}
        begin = time.monotonic()
        submitter.stdin.write("\n")
        submitter.stdin.flush()
        figures.rate.add(tasks / (database.wait_for(COMPLETED[name], tasks + 1) - begin))
        for who, pid in pids.items():
            spent = (cpu_seconds([pid]) - before[who]) / tasks * 1000
            figures.cpu_ms.setdefault(who, Rounds(smaller_is_better=True)).add(spent)
        figures.submits.add(tasks / float(submitter.stdout.readline()))
        submitter.stdin.write("\n")
        submitter.stdin.flush()
    if name in AUDIT:
        figures.history = f"{database.count(AUDIT[name]) / (tasks + 1):.1f}"


def _argv(name: str, *action: str) -> list[str]:
    return guarded([python_of(name), "-m", "bench.pipelines.run", name, *action], dies_with=signal.SIGKILL)


@contextmanager
def _process(name: str, environment: dict[str, str], *action: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        _argv(name, *action), cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()
