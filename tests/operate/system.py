"""A web process, two orchestrators, housekeeping and a node, on the servers of a test, with jobs going through."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import psycopg

from tests.conftest import ROOT
from tests.load import Load
from tests.support import Spawned, reserve_port, wait_until

START_S = 60
FAILOVER_TIMEOUT_S = 60.0
"""Of a failover on a busy machine; docs/operate/failover.md has what it takes."""


@dataclass
class System:
    """`start` returns when it is ready."""

    load: Load
    processes: list[Spawned]
    database: str

    @classmethod
    def start(
        cls, spawn: Callable[..., Spawned], env: Mapping[str, str], state: Path, redis_of_nodes: str = ""
    ) -> System:
        assert spawn("manage.py", "migrate", env=env).wait(START_S) == 0
        issued = spawn("manage.py", "token", "create", "--project", "failover", "--name", "load", env=env)
        assert issued.wait(START_S) == 0, issued.output
        token = next(row for row in issued.output.splitlines() if row and " " not in row)
        port = reserve_port()
        web = spawn("-m", "dalston_site.web", "--port", str(port), "--log-level", "warning", env=env)
        orchestrators = [spawn("manage.py", "runorchestrator", env=env) for _ in range(2)]
        node = ["--engines", str(ROOT / "engines/demo"), "--state-dir", str(state), "--node-id", "n"]
        of_node = {**env, "DATABASE_URL": "", "REDIS_URL": redis_of_nodes or env["REDIS_URL"]}
        others = [spawn("manage.py", "run_huey", env=env), spawn("manage.py", "runsupervisor", *node, env=of_node)]
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url), START_S, lambda: web.output)
        return cls(Load(url, token, env["DATABASE_URL"]), [web, *orchestrators, *others], env["DATABASE_URL"])

    def seconds_until_a_new_job_completes(self, start: float) -> float:
        """Since `start`, by the monotonic clock: a job that is submitted from now on."""
        since = self._one("SELECT clock_timestamp()")
        query = f"SELECT 1 FROM dalston_job WHERE status = 'completed' AND created_at > '{since}' LIMIT 1"
        wait_until(lambda: self._one(query), FAILOVER_TIMEOUT_S, "a new job to complete")
        return time.monotonic() - start

    def nothing_is_lost(self) -> None:
        """After the load: each job completed, once; every process is there, and none has shown a traceback."""
        self.load.nothing_is_lost(120)
        assert self._one("SELECT count(*) FROM dalston_dead_letter") == 0
        assert all(process.running() for process in self.processes)
        assert not [process.output for process in self.processes if "Traceback" in process.output]
        print(f"{self.load.accepted} jobs, {len(self.load.rerun())} tasks ran again")

    def _one(self, query: str) -> int | datetime | None:
        try:
            with psycopg.connect(self.database, connect_timeout=5) as connection:
                row = connection.execute(query.encode()).fetchone()
        except psycopg.OperationalError:
            return None
        return row[0] if row else None


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
