"""What a machine needs: memory and connections of each process, bytes of a job in Postgres and Redis, CPU of a task."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg

from bench.harness.figures import Section
from bench.harness.fleet import wait_for
from bench.harness.processes import ROOT, cpu_seconds
from bench.harness.run import Command, Run
from bench.harness.servers import BenchServer, Database, private_postgres, private_valkey
from dalston_queue.broker import connect
from dalston_queue.broker.protocol.types import EngineState
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.server import free_port

BATCH = 1_000
READY_S, DONE_S = 120.0, 1_200.0
MIB = 2**20
WITHOUT_LIMITS = {
    f"DALSTON_BACKPRESSURE_{name}": "100000000" for name in ("WAITING", "HIGH_ONLY", "LISTED_ONLY", "PROJECT")
}


@dataclass(frozen=True)
class System:
    """Servers, and a process of each kind. The node is started when the jobs are there."""

    env: dict[str, str]
    valkey: BenchServer
    servers: dict[str, int]
    processes: dict[str, psutil.Process]
    api: httpx.Client
    stack: ExitStack

    def start(self, name: str, *arguments: str, **variables: str) -> None:
        argv = guarded([sys.executable, *arguments], dies_with=signal.SIGKILL)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(argv, cwd=ROOT, env={**self.env, **variables}, stdout=quiet, stderr=quiet)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.processes[name] = psutil.Process(process.pid)

    def start_node(self, folder: Path) -> None:
        options = ["--engines", str(ROOT / "engines/demo"), "--state-dir", str(folder), "--node-id", "bench"]
        self.start("node", "manage.py", "runsupervisor", *options, DATABASE_URL="")
        broker = connect(self.env["REDIS_URL"])
        ready = EngineState.READY
        wait_for(lambda: any(it.state is ready for it in broker.registry.engines()), READY_S, "the engine is ready")
        broker.close()

    def submit(self, count: int) -> None:
        parameters = {"user": 7, "audio": "s3://bucket/2026/11/16/call-0001.wav", "note": "x" * 130}  # 200 bytes
        job = {"name": "bench", "stages": [{"stage": "echo", "parameters": parameters}]}
        for left in range(count, 0, -BATCH):
            answer = self.api.post("/api/v1/jobs:batch", json={"jobs": [job] * min(BATCH, left)})
            answer.raise_for_status()

    def one(self, query: str) -> int:
        with psycopg.connect(self.env["DATABASE_URL"], autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        return int(row[0]) if row else 0

    def disk(self) -> int:
        """Bytes of the database, after what autovacuum does by itself in time."""
        with psycopg.connect(self.env["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("VACUUM")
        return self.one("SELECT pg_database_size(current_database())")

    def redis(self) -> int:
        return self.valkey.used_memory()


@contextmanager
def system(folder: Path) -> Iterator[System]:
    with private_valkey() as valkey, private_postgres() as postgres, ExitStack() as stack:
        port = free_port()
        own = {"DALSTON_DEV": "1", "DATABASE_URL": Database(postgres.url, 1).url, "REDIS_URL": valkey.url}
        env = {**os.environ, **own, **WITHOUT_LIMITS, "DALSTON_ARTIFACTS_URL": (folder / "store").as_uri()}
        _manage(env, "migrate", "-v0")
        token = _manage(env, "token", "create", "--name", "bench", "--project", "bench")
        url = f"http://127.0.0.1:{port}"
        api = stack.enter_context(httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60))
        made = System(env, valkey, {"Postgres": postgres.pid, "Redis": valkey.pid}, {}, api, stack)
        made.start("web", "-m", "dalston_site.web", "--port", str(port), "--log-level", "warning")
        made.start("orchestrator", "manage.py", "runorchestrator")
        made.start("housekeeping", "manage.py", "run_huey")
        wait_for(lambda: _answers(api), READY_S, "the web process is ready")
        yield made


def _manage(env: dict[str, str], *arguments: str) -> str:
    argv = [sys.executable, "manage.py", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout.strip()


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def processes(running: System) -> Section:
    """After the load, which has opened what each of them opens."""
    section = Section("Each process, after the jobs", ["", "memory, MiB", "connections to Postgres", "to Redis"])
    ports = [urlsplit(running.env[name]).port or 0 for name in ("DATABASE_URL", "REDIS_URL")]
    for name, process in running.processes.items():
        family = [process, *process.children(recursive=True)]
        memory = sum(each.memory_full_info().pss for each in family) / MIB
        open_to = [port_of(link) for each in family for link in each.net_connections("tcp")]
        section.rows.append([name, f"{memory:.0f}", *(str(open_to.count(port)) for port in ports)])
    section.notes.append(
        "memory is PSS of the process and its children: a node is its supervisor, log relay and engine"
    )
    return section


def port_of(link: Any) -> int:
    """The port of the other end; 0 for a socket that listens."""
    return int(link.raddr[1]) if link.raddr else 0


def jobs(running: System, folder: Path, count: int) -> list[Section]:
    bytes_of = Section(
        f"A job of one task with 200 bytes of parameters, of {count:,}", ["", "bytes", "of a million, GB"]
    )
    over = "SELECT count(*) FROM dalston_job WHERE status = 'completed'"
    disk, memory = running.disk(), running.redis()
    running.submit(count)
    waiting, used = running.disk() - disk, running.redis() - memory
    running.start_node(folder)
    pids = {**running.servers, **{name: it.pid for name, it in running.processes.items()}}
    before = {name: cpu_seconds([pid]) for name, pid in pids.items()}
    done = running.one(over)
    wait_for(lambda: running.one(over) >= count, DONE_S, "all jobs are completed")
    spent = {name: cpu_seconds([pid]) - before[name] for name, pid in pids.items()}
    completed = running.disk() - disk
    for name, size in (("Postgres, waiting", waiting), ("Postgres, completed", completed), ("Redis, waiting", used)):
        bytes_of.rows.append([name, f"{size / count:,.0f}", f"{size / count / 1000:.2f}"])
    bytes_of.notes.append("Redis holds a window of each queue: the more wait, the less of it is a job's")
    cpu = Section("CPU of a task, from READY to completed", ["", "ms", "tasks/s of one core"])
    for name in ("orchestrator", "node", "Postgres", "Redis"):
        cost = max(spent[name] / (count - done) * 1000, 0.001)
        cpu.rows.append([name, f"{cost:.2f}", f"{1000 / cost:,.0f}"])
    return [bytes_of, cpu]


def main(arguments: list[str] | None = None) -> None:
    command = Command("sizing", __doc__)
    command.add_argument("--jobs", type=int, help="how many")
    options = command.parse(arguments)
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    with tempfile.TemporaryDirectory(prefix="dalston-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with system(folder) as running:
            sections = jobs(running, folder / "node", options.jobs or (300 if options.small else 20_000))
            run.add(processes(running))
            for section in sections:
                run.add(section)
    run.finish(options.json)


if __name__ == "__main__":
    main()
