"""A whole node gone (supervisor and engines killed at once): how long until its tasks run elsewhere. Needs a judge."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness.environment import ROOT
from bench.harness.figures import Section, Target, percentile
from bench.recoveries.node import Fleet, wait_for
from dalston_queue.broker.protocol.record import Record
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server


def node_gone(redis_url: str, rounds: int, victims: int) -> Section:
    with tempfile.TemporaryDirectory(prefix="dalston-bench-") as folder:
        postgres = Server(Postgres(Path(folder) / "postgres", fast=True), Path(folder) / "postgres")
        try:
            times = [seconds for _ in range(rounds) for seconds in _round(redis_url, postgres.url, victims)]
        finally:
            postgres.stop()
    section = Section("a whole node gone -> its task runs on another node", ["nodes", "median", "max"])
    section.rows.append([str(len(times)), f"{percentile(times, 0.5):.1f} s", f"{max(times):.1f} s"])
    section.targets.append(Target("under 25 s", max(times) < 25))
    return section


def _round(redis_url: str, database_url: str, victims: int) -> list[float]:
    """All victims at once, each with one task; one node with room for all of them survives."""
    fleet = Fleet(redis_url)
    env = {**os.environ, "DALSTON_DEV": "1", "DATABASE_URL": database_url, "REDIS_URL": redis_url}
    env["DALSTON_REDIS_PREFIX"] = fleet.prefix
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    orchestrator = subprocess.Popen(
        [sys.executable, "manage.py", "runorchestrator"], cwd=ROOT, env=env, stderr=subprocess.DEVNULL
    )
    try:
        doomed = [fleet.node(f"doomed-{number}") for number in range(victims)]
        for node in doomed:
            node.sleepers(1)
            node.start()
        for node in doomed:
            node.ready(1)
        tasks = [fleet.submit("sleep", seconds=60) for _ in doomed]
        starts = {task: _owner(fleet, task, "doomed-").owner for task in tasks}
        survivor = fleet.node("survivor")
        survivor.sleepers(1, capacity=victims)
        survivor.start()
        survivor.ready(1)
        killed_at = {}
        for node in doomed:
            killed_at[node.name] = time.time()
            node.kill()
        return [
            _owner(fleet, task, "survivor.").claimed_at_ms / 1000 - killed_at[engine.partition(".")[0]]
            for task, engine in starts.items()
        ]
    finally:
        orchestrator.kill()
        orchestrator.wait()
        fleet.close()


def _owner(fleet: Fleet, task: str, prefix: str) -> Record:
    """The record of a task once an engine of these nodes has it. Not by its events: the orchestrator reads those."""

    def found() -> Record | None:
        record = fleet.broker.records("sleep", [task]).get(task)
        return record if record is not None and record.owner.startswith(prefix) else None

    return wait_for(found, 90, f"{task} at {prefix}…")
