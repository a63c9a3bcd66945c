"""From submit to completed in Postgres, beside Celery with django-celery-results and Procrastinate."""

from dataclasses import dataclass, field
from time import monotonic
from typing import LiteralString

from bench.harness.figures import Rounds, Section, Target
from bench.harness.processes import PeerError, cpu_seconds, started
from bench.harness.run import Command, Run
from bench.harness.servers import Database, private_postgres, private_valkey
from bench.peers import settings_of

MODULES = {"dalston": "dalston_engine", "celery": "celery", "procrastinate": "procrastinate"}
"""The file in bench/peers/ of each system."""

COMPLETED: dict[str, LiteralString] = {
    "dalston": "SELECT count(*) FROM dalston_task WHERE status = 'completed'",
    "celery": "SELECT count(*) FROM django_celery_results_taskresult WHERE status = 'SUCCESS'",
    "procrastinate": "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
}
"""How many tasks are completed according to Postgres."""

HISTORY: dict[str, LiteralString] = {
    "dalston": "SELECT count(*) FROM dalston_task_event",
    "procrastinate": "SELECT count(*) FROM procrastinate_events",
}
"""How many rows of history were written on the way."""


@dataclass
class Figures:
    """Figures of one system by round."""

    rate: Rounds = field(default_factory=Rounds)
    submits: Rounds = field(default_factory=Rounds)
    cpu_ms: dict[str, Rounds] = field(default_factory=dict)  # per task, by the process that spends it
    history: str = "none"


def pipeline(peers: list[str], *, rounds: int, tasks: int) -> Section:
    figures = {name: Figures() for name in ("dalston", *peers)}
    section = Section(
        f"Tasks per second, submit to completed in Postgres, {tasks:,} tasks (best of {rounds} rounds)",
        ["", "tasks/s", "of all rounds", "CPU ms per task", "submits/s", "rows of history per task"],
    )
    with private_valkey() as valkey, private_postgres() as postgres:
        servers = {"Postgres": postgres.pid, "Valkey": valkey.pid}
        for number in range(rounds):
            for position, (name, found) in enumerate(figures.items()):
                valkey.flush()
                database = Database(postgres.url, number * len(figures) + position)
                try:
                    _round(name, database, valkey.url, tasks, servers, found)
                except PeerError as failed:
                    section.notes.append(f"round {number + 1}, {name}: {failed}")
    for name, found in figures.items():
        if found.rate.values:
            cpu = sum(part.best for part in found.cpu_ms.values())
            row = [name, f"{found.rate.best:,.0f}", found.rate.spread, f"{cpu:.2f}", f"{found.submits.best:,.0f}"]
            section.rows.append([*row, found.history])
            parts = ", ".join(f"{part} {spent.best:.2f}" for part, spent in found.cpu_ms.items())
            section.notes.append(f"CPU ms per task of {name}: {parts}")
    if figures["dalston"].rate.values:
        best = figures["dalston"].rate.best
        section.targets.append(Target(f"{best:,.0f} tasks/s through Postgres (target 1 000)", best >= 1000))
    section.notes += [f"{name}: {settings_of(MODULES[name], 'In the pipeline: ')}" for name in figures]
    return section


def _round(
    name: str, database: Database, redis_url: str, tasks: int, servers: dict[str, int], figures: Figures
) -> None:
    module = MODULES[name]
    urls = {"DATABASE_URL": database.url, "REDIS_URL": redis_url, "DALSTON_DEV": "1"}
    with started(module, "prepare", quiet=True, **urls) as process:
        process.communicate()
        if process.returncode:
            raise PeerError(f"`prepare` ended with {process.returncode}")
    with (
        started(module, "serve", quiet=True, **urls) as worker,
        started(module, "submit", tasks, quiet=True, **urls) as submitter,
    ):
        assert submitter.stdin and submitter.stdout
        if submitter.stdout.readline().strip() != "ready":
            raise PeerError("it could not submit")
        database.wait_for(COMPLETED[name], 1)
        pids = {"submitter": submitter.pid, "workers": worker.pid, **servers}
        before = {part: cpu_seconds([pid]) for part, pid in pids.items()}
        begin = monotonic()
        submitter.stdin.write("\n")
        submitter.stdin.flush()
        figures.rate.add(tasks / (database.wait_for(COMPLETED[name], tasks + 1) - begin))
        for part, pid in pids.items():
            spent = (cpu_seconds([pid]) - before[part]) / tasks * 1000
            figures.cpu_ms.setdefault(part, Rounds(smaller_is_better=True)).add(spent)
        figures.submits.add(tasks / float(submitter.stdout.readline()))
    if name in HISTORY:
        figures.history = f"{database.count(HISTORY[name]) / (tasks + 1):.1f}"


def main(arguments: list[str] | None = None) -> None:
    command = Command("pipeline", __doc__)
    command.add_list("peers", [name for name in MODULES if name != "dalston"], "which peers; empty for none")
    command.add_argument("--rounds", type=int, help="of each system; the table shows the best")
    command.add_argument("--tasks", type=int, help="in a round")
    options = command.parse(arguments)
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    rounds, tasks = options.rounds or (1 if options.small else 3), options.tasks or (200 if options.small else 3_000)
    run.add(pipeline(options.peers, rounds=rounds, tasks=tasks))
    run.finish(options.json)


if __name__ == "__main__":
    main()
