"""A rolling upgrade: the released code and schema beside this one, jobs running all the while, and none is lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString

import httpx
import psycopg
import pytest

from dalston_queue.broker import Broker, connect
from dalston_queue.broker.protocol.types import EngineState
from tests.conftest import ROOT
from tests.load import Load
from tests.support import Spawned, reserve_port, wait_until
from tests.upgrade.releases import PREVIOUS, unpack

JOBS = 20
START_S = 90
"""Processes start beside each other, on a busy machine."""


@dataclass
class Installation:
    """One version of the code: its folder, and the processes that run it."""

    name: str
    code: Path
    env: dict[str, str]
    folder: Path
    running: dict[str, Spawned] = field(default_factory=dict)

    def start(self, name: str, *argv: str, **more: str) -> Spawned:
        log = self.folder / f"{self.name}-{name}.log"
        self.running[name] = Spawned([sys.executable, *argv], log, {**self.env, **more}, self.code)
        return self.running[name]

    def run(self, *argv: str) -> str:
        done = self.start(argv[0], "manage.py", *argv)
        assert done.wait(START_S) == 0, done.output
        del self.running[argv[0]]
        return done.output

    def web(self) -> str:
        """Its address. 0.1.0 serves with uvicorn itself."""
        port = reserve_port()
        own = (self.code / "dalston_site" / "web.py").exists()
        program = ["-m", "dalston_site.web"] if own else ["-m", "uvicorn", "dalston_site.asgi:application"]
        process = self.start("web", *program, "--port", str(port), "--log-level", "warning")
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.running(), process.output
            try:
                return httpx.get(f"{url}/healthz", timeout=40).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(answers, START_S, lambda: process.output)
        return url

    def orchestrator(self, number: int = 1) -> None:
        self.start(f"orchestrator-{number}", "manage.py", "runorchestrator").wait_for("orchestrator ready", START_S)

    def housekeeping(self) -> None:
        self.start("housekeeping", "manage.py", "run_huey")

    def node(self, broker: Broker, state: Path) -> None:
        """A node of its own: with DATABASE_URL it would be no node."""
        arguments = [
            "--node-id",
            self.name,
            "--state-dir",
            str(state),
            "--engines",
            str(self.code / "engines" / "demo"),
        ]
        process = self.start("node", "manage.py", "runsupervisor", *arguments, DATABASE_URL="")
        wait_until(
            lambda: [it for it in engines_of(broker, self.name) if it == EngineState.READY],
            START_S,
            lambda: process.output,
        )

    def stop(self, *names: str) -> None:
        """As a service manager: SIGTERM, and the process ends by itself."""
        for name in names or list(self.running):
            process = self.running.pop(name)
            # Uvicorn ends by the signal itself, after its last answer.
            assert process.stop(timeout=START_S) in (0, -signal.SIGTERM), process.output
            assert "Traceback" not in process.output, process.output


def engines_of(broker: Broker, node: str) -> list[EngineState]:
    return [engine.state for engine in broker.registry.engines() if engine.node_id == node]


def one_row(query: LiteralString, env: dict[str, str]) -> object:
    with psycopg.connect(env["DATABASE_URL"]) as connection:
        return connection.execute(query).fetchone()


@pytest.fixture
def env(process_env: dict[str, str], empty_database: str) -> dict[str, str]:
    return {**process_env, "DATABASE_URL": empty_database}


@pytest.fixture
def versions(env: dict[str, str], tmp_path: Path) -> Iterator[tuple[Installation, Installation]]:
    old_code = unpack(PREVIOUS, tmp_path / "old")
    # Each imports its own folder, whatever is installed.
    both = [
        Installation(name, code, {**env, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}, tmp_path)
        for name, code in (("old", old_code), ("new", ROOT))
    ]
    yield both[0], both[1]
    for installation in both:
        for process in installation.running.values():
            process.reap()


def token_of(installation: Installation) -> str:
    options = ["--project", "upgrade", "--name", "load", "--scope", "submit", "--scope", "read"]
    printed = installation.run("token", "create", *options).splitlines()
    return next(row for row in printed if row and " " not in row)


@dataclass
class Upgrade:
    """Both versions of an installation, and the load on it."""

    old: Installation
    new: Installation
    broker: Broker
    jobs: Load
    states: Path

    def replace_nodes(self, old: Installation, new: Installation) -> None:
        new.node(self.broker, self.states / f"{new.name}-node")
        self.both_work()  # engines of both versions
        old.stop("node")
        self.both_work()

    def replace_servers(self, old: Installation, new: Installation) -> None:
        new.orchestrator(1)
        self.both_work()  # both orchestrators, one event stream
        old.stop("orchestrator-1")
        self.both_work()
        new.orchestrator(2)
        old.stop("orchestrator-2")
        self.both_work()  # the old web process with the new orchestrators
        before = list(self.jobs.urls)
        self.jobs.urls.append(new.web())
        self.both_work()  # both web processes
        old.stop("housekeeping")
        new.housekeeping()
        for url in before:
            self.jobs.urls.remove(url)
        old.stop("web")
        self.both_work()

    def both_work(self) -> None:
        """Jobs complete, and one that fails is a dead letter with its error."""
        self.jobs.go_on(JOBS)
        assert "you asked for it" in self.jobs.fail_one()


@pytest.mark.slow
@pytest.mark.keeps_keys
@pytest.mark.timeout(1500)
def test_the_previous_release_is_replaced_while_jobs_run_and_comes_back(
    versions: tuple[Installation, Installation], env: dict[str, str], tmp_path: Path
) -> None:
    old, new = versions
    broker = connect(env["REDIS_URL"], prefix=env["DALSTON_REDIS_PREFIX"])
    old.run("migrate")
    token = token_of(old)
    old_url = old.web()
    old.orchestrator(1)
    old.orchestrator(2)
    old.housekeeping()
    old.node(broker, tmp_path / "old-node")
    with Load(old_url, token, env["DATABASE_URL"]) as jobs:
        upgrade = Upgrade(old, new, broker, jobs, tmp_path)
        upgrade.both_work()
        new.run("migrate")
        upgrade.both_work()  # the old code on the new schema
        upgrade.replace_nodes(old, new)  # new engines with the old servers
        upgrade.replace_servers(old, new)
        # The way back: nothing that the new version has written stops the old one.
        upgrade.replace_nodes(new, old)  # old engines with the new servers
        upgrade.replace_servers(new, old)
        # And on again.
        upgrade.replace_servers(old, new)
        upgrade.replace_nodes(old, new)
    jobs.nothing_is_lost()
    assert jobs.rerun() == set()
    # 0.1.0 counts no pending tasks, and no projects: the duty `depth` of the new one counts anew.
    new.run("reconcile")
    assert "repaired: nothing differs" in new.run("reconcile")
    wait_until(lambda: one_row("SELECT 1 FROM dalston_duty WHERE name = 'depth'", env), START_S, "its duties")
    new.stop()
    broker.close()
