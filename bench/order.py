"""The order of a million waiting tasks: refill, submit, Redis memory, READY indexes after churn, enqueue to start."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import django
import psycopg

from bench.harness.figures import Ratio, Rounds, Section, Target, percentile
from bench.harness.processes import ROOT
from bench.harness.run import Command, Run
from bench.harness.servers import BenchServer, Database, private_postgres, private_valkey
from bench.harness.web import Web, request, serving
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.server import Server

PARTS = ("idle", "churn", "memory", "submit", "refill")
TASK = {"task_type": "echo", "parameters": {"language": "en", "audio": "s3://bucket/2026/11/16/call-0001.wav"}}
# A million waiting tasks are far above the steps at which submissions are refused.
NO_BACKPRESSURE = {
    f"DALSTON_BACKPRESSURE_{step}": str(10**9 + number)
    for number, step in enumerate(("WAITING", "HIGH_ONLY", "LISTED_ONLY", "PROJECT"))
}
MAX_REFILL_MS, MAX_GROWTH, MAX_MEMORY_MB, MAX_SUBMIT = 12.0, 1.25, 20.0, 1.5
MAX_INDEX_MB = 20.0
WINDOW = 32


@dataclass(frozen=True)
class Size:
    waiting: int  # in the lane with 500 groups
    beside: int  # in each other lane
    churned: int  # tasks that go through the windows between the first and the last refills that are timed
    timed: int  # refills of each lane
    hour: int  # tasks of the compressed hour
    rounds: int
    requests: int
    samples: int


FULL = Size(1_000_000, 100_000, 64_000, 100, 360_000, 5, 600, 300)
SMALL = Size(20_000, 2_000, 640, 10, 10_000, 1, 50, 10)


def order(size: Size, only: list[str]) -> Iterator[Section]:
    with private_valkey() as valkey, private_postgres() as postgres:
        full, empty = (Database(postgres.url, number).url for number in range(2))
        environment = {"DALSTON_DEV": "1", "DJANGO_SETTINGS_MODULE": "dalston_site.settings", **NO_BACKPRESSURE}
        of_full = {**environment, "DATABASE_URL": full, "REDIS_URL": valkey.url}
        of_empty = {**environment, "DATABASE_URL": empty, "REDIS_URL": valkey.database(1)}
        os.environ.update(of_full)
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        if "idle" in only:
            yield idle(of_full, size)
        if "churn" in only:
            yield churn(postgres, size)
        if not {"memory", "submit", "refill"} & {*only}:
            return
        _clear(valkey)
        lanes = _fill(size)
        if "memory" in only:
            yield memory(valkey, size)
        if "submit" in only:
            yield submit(of_empty, of_full, size)
        if "refill" in only:
            yield refill(lanes, size)


def idle(environment: Mapping[str, str], size: Size) -> Section:
    """From the submission to the claim by an engine that waits, with an orchestrator of its own process."""
    from bench.harness.ready_tasks import project_named
    from dalston_queue.broker import Consumer
    from dalston_queue.broker.protocol.messages import Completed
    from dalston_queue.jobs.submit.spec import single_task
    from dalston_queue.jobs.submit.submit import submit as submit_one
    from dalston_queue.redis import get_broker

    mine = project_named("idle")
    took: list[float] = []
    consumer = Consumer(get_broker(), "lone.bench.0.boot", ["echo"])
    consumer.open()
    # This engine does not beat: on a slow machine it would be taken for dead.
    with _orchestrator({**environment, "DALSTON_DEAD_AFTER_S": "600"}) as orchestrator:
        for number in range(size.samples + 10):
            begun = time.perf_counter()
            submit_one(single_task("echo"), project=mine)
            while not (claimed := consumer.claim()):
                if orchestrator.poll() is not None:
                    raise SystemExit(f"the orchestrator has ended with {orchestrator.returncode}")
                consumer.wait(1.0)
            if number >= 10:  # the first ones import modules, and wait for the orchestrator's start
                took.append((time.perf_counter() - begun) * 1000)
            consumer.exchange([(task, Completed({})) for task in claimed], free=0)
            time.sleep(0.01)
    consumer.close()
    middle, tail = (f"{percentile(took, share):.1f}" for share in (0.5, 0.99))
    return Section(
        "Milliseconds from submit to the engine's claim, idle: Postgres, an orchestrator, Valkey, an engine",
        ["", "median", "p99", "samples"],
        [["one task at a time", middle, tail, str(len(took))]],
    )


@contextmanager
def _orchestrator(environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    argv = guarded([sys.executable, "manage.py", "runorchestrator"], dies_with=signal.SIGKILL)
    process = subprocess.Popen(
        argv, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def churn(postgres: Server, size: Size) -> Section:
    """An hour of 100 tasks a second, compressed: batches of READY tasks go through all states, by the updates that a
    task gets; ten thousand wait all the while."""
    from bench.harness.ready_tasks import add_ready, finish_oldest, index_sizes, projects

    waiting, batch = 10_000, 1_000
    groups = projects(50, "churn")
    add_ready(waiting, groups, keys=10)
    fresh = index_sizes(rebuilt=True)
    largest, begun = fresh, time.monotonic()
    with _autovacuum_each_second(postgres):
        for _ in range(size.hour // batch):
            add_ready(batch, groups, keys=10)
            finish_oldest(batch)
            largest = {name: max(largest[name], now) for name, now in index_sizes().items()}
    took = time.monotonic() - begun
    section = Section(
        f"READY indexes while {size.hour:,} tasks went through them in {took:.0f} s; {waiting:,} waited all the while",
        ["", "MB when fresh", "at most", "at the end"],
    )
    for name, end in index_sizes().items():
        section.rows.append([name, *(f"{count / 1e6:.1f}" for count in (fresh[name], largest[name], end))])
    most = max(largest.values()) / 1e6
    section.targets.append(Target(f"{most:.1f} MB at most (target {MAX_INDEX_MB:g})", most < MAX_INDEX_MB))
    section.notes.append(
        "by SQL, in batches of 1 000: insert, READY to QUEUED, RUNNING, COMPLETED; autovacuum as in the migration, "
        "awake every second instead of every minute, because the hour is compressed"
    )
    return section


@contextmanager
def _autovacuum_each_second(postgres: Server) -> Iterator[None]:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
        connection.execute("SELECT pg_reload_conf()")
        yield
        connection.execute("ALTER SYSTEM RESET autovacuum_naptime")
        connection.execute("SELECT pg_reload_conf()")


def _clear(valkey: BenchServer) -> None:
    from django.db import connection

    valkey.flush()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE dalston_job, dalston_task, dalston_task_event, dalston_depth CASCADE")


@dataclass(frozen=True)
class Lane:
    """A queue whose tasks wait in so many groups."""

    name: str
    queue: str
    projects: list[Any]
    keys: int = 1


def _fill(size: Size) -> list[Lane]:
    from bench.harness.inserts import fast_inserts
    from bench.harness.ready_tasks import add_ready, projects

    begun = time.monotonic()
    lanes = [
        Lane(f"{size.waiting:,} in 500 groups", "many", projects(50, "many"), 10),
        Lane(f"{size.beside:,} in 3 groups", "few", projects(3, "few")),
        Lane(f"{size.beside:,} in 1 group", "one", projects(1, "one")),
        Lane("32 in 32 groups, room for all", "room", projects(32, "room")),
    ]
    with fast_inserts():
        for lane, count in zip(lanes, (size.waiting, size.beside, size.beside, WINDOW), strict=True):
            add_ready(count, lane.projects, keys=lane.keys, queue=lane.queue)
    print(f"Filled in {time.monotonic() - begun:.0f} s, by INSERT … SELECT of a series of numbers.", flush=True)
    return lanes


def memory(valkey: BenchServer, size: Size) -> Section:
    """With the windows full."""
    from django.utils import timezone

    from dalston_queue.jobs.order import refill

    before = valkey.used_memory()
    refill.refill(None, timezone.now())
    used = valkey.used_memory()
    waiting = size.waiting + 2 * size.beside
    return Section(
        f"Redis memory with {waiting:,} waiting tasks",
        ["", "MB", "of it for the windows"],
        [["Valkey's used_memory", f"{used / 1e6:.1f}", f"{(used - before) / 1e6:.2f}"]],
        [Target(f"{used / 1e6:.1f} MB (target under {MAX_MEMORY_MB:g})", used / 1e6 < MAX_MEMORY_MB)],
    )


def submit(of_empty: Mapping[str, str], of_full: Mapping[str, str], size: Size) -> Section:
    """Two web processes on one Postgres, one database with what waits, and an empty one."""
    names = {"nothing waits": of_empty, f"{size.waiting + 2 * size.beside:,} wait": of_full}
    p50 = {name: Rounds(smaller_is_better=True) for name in names}
    p99 = {name: Rounds(smaller_is_better=True) for name in names}
    _manage(of_empty, "migrate", "-v0")
    with ExitStack() as stack:
        servers: dict[str, tuple[Web, bytes]] = {}
        for name, environment in names.items():
            token = _manage(environment, "token", "create", "--name", "bench", "--project", "bench")
            web = stack.enter_context(serving("dalston_site.asgi:application", environment, "/readyz"))
            servers[name] = web, request("POST", "/api/v1/tasks", TASK, token)
            web.round(servers[name][1], 50, 4)  # opens the connections, and runs late imports
        for number in range(size.rounds):
            for name, (web, content) in servers.items():
                found = web.round(content, size.requests, 4)
                p50[name].add(found.p50_ms, number)
                p99[name].add(found.p99_ms, number)
    section = Section(
        f"POST /tasks, {size.requests} requests on 4 connections ({size.rounds} rounds)",
        ["", "p50 ms: median of rounds", "p99 ms: median of rounds", "of all rounds"],
        [[name, f"{p50[name].median:.1f}", f"{p99[name].median:.1f}", p99[name].spread] for name in names],
    )
    empty, full = p99.values()
    if ratio := Ratio.between(full, empty):
        text = f"p99 {ratio.median:.2f} x that of an empty database (target {MAX_SUBMIT:g}; {ratio})"
        section.targets.append(Target(text, ratio.median <= MAX_SUBMIT))
    return section


def _manage(environment: Mapping[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def refill(lanes: list[Lane], size: Size) -> Section:
    """Refills of 32, each after an engine has run what the last one brought."""
    from bench.harness.refills import Refills

    section = Section(
        f"Milliseconds of a refill of {WINDOW} ({size.timed} refills of each lane)",
        ["", "median", "p90", "fastest", "CPU ms"],
    )
    many, *others = lanes
    with Refills() as refills:
        refills.run(many, 10)  # the first ones compile, connect and import
        first = refills.run(many, size.timed)
        refills.run(many, max(0, size.churned // WINDOW - size.timed))
        last = refills.run(many, size.timed)
        found = {many.name: first, f"the same, after {size.churned:,} tasks": last}
        found |= {lane.name: refills.run(lane, size.timed) for lane in others}
    for name, timed in found.items():
        cells = (percentile(timed.took, 0.5), percentile(timed.took, 0.9), min(timed.took), timed.cpu_ms)
        section.rows.append([name, *(f"{value:.1f}" for value in cells)])
    middle, end = percentile(first.took, 0.5), percentile(last.took, 0.5)
    section.targets += [
        Target(f"{middle:.1f} ms with 500 groups (target under {MAX_REFILL_MS:g})", middle < MAX_REFILL_MS),
        Target(
            f"{end / middle:.2f} x that after {size.churned:,} tasks (target {MAX_GROWTH:g})",
            end <= MAX_GROWTH * middle,
        ),
    ]
    section.notes.append(
        "from the depth to the commit, in one process, with fsync; CPU of this process and of its Postgres backend"
    )
    return section


def main(arguments: list[str] | None = None) -> int:
    command = Command("order", __doc__)
    command.add_list("only", PARTS, "which parts")
    options = command.parse(arguments)
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    for section in order(SMALL if options.small else FULL, options.only):
        run.add(section)
    run.finish(options.json)
    return 0 if options.small or run.kept_all_targets else 1


if __name__ == "__main__":
    raise SystemExit(main())
