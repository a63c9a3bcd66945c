"""`./dev up` survives the death of each of its processes while jobs run: none is lost, none runs for nothing twice."""

import time
from pathlib import Path

import httpx
import psutil
import pytest

from dalston_queue.broker import connect
from dalston_queue.broker.protocol.types import EngineState, Role
from tests.e2e.conftest import Up, command_of
from tests.load import Load
from tests.support import Spawned, wait_until

JOBS = 10
BACK_S = 60
"""Engines and nodes load their programs again, all at once after the death of a supervisor."""

SERVERS = ["valkey-server", "bin/postgres", "dalston_site.web", "runorchestrator", "run_huey"]
"""By a word of their command. Their death is no reason to run a task again."""
NODE = ["logs/relay.py", "runsupervisor"]


def load(up: Up) -> Load:
    return Load(up.env["DALSTON_URL"], up.env["DALSTON_TOKEN"], up.env["DATABASE_URL"])


def child(up: Spawned, word: str, besides: int = 0) -> psutil.Process:
    """A process of `up` with this word in its command, or an engine in the folder of this name. It is a parent of the
    others with that word, if there are any."""

    def found() -> psutil.Process | None:
        those = [it for it in psutil.Process(up.pid).children(recursive=True) if names(it, word) and it.pid != besides]
        return those[0] if those else None

    return wait_until(found, BACK_S, f"a process {word}")


def names(process: psutil.Process, word: str) -> bool:
    command = command_of(process)
    if word.startswith("engines/"):
        return any("engine.py" in each for each in command) and folder_of(process).match(word)
    return any(word in each for each in command)


def folder_of(process: psutil.Process) -> Path:
    try:
        return Path(process.cwd())
    except psutil.Error:
        return Path()


def kill_one(one: Spawned, word: str, jobs: Load) -> None:
    """Jobs run before its death, and go on after that."""
    jobs.go_on(JOBS, BACK_S)
    victim = child(one, word)
    victim.kill()
    psutil.wait_procs([victim], BACK_S)
    jobs.go_on(JOBS, BACK_S)
    assert child(one, word, besides=victim.pid).is_running()
    assert one.running(), one.output


def everything_is_back(up: Up, engines: int) -> None:
    """No process but a new one was asked so far: these answer for all of them."""
    assert httpx.get(f"{up.env['DALSTON_URL']}/healthz", timeout=40).status_code == 200
    broker = connect(up.env["REDIS_URL"])
    since_ms = time.time_ns() // 1_000_000

    def ready() -> list[str]:
        return [
            engine.engine_id
            for engine in broker.registry.engines()
            if engine.at_ms >= since_ms and engine.state is EngineState.READY
        ]

    wait_until(lambda: len(ready()) == engines, BACK_S, lambda: f"of {engines} engines are ready: {ready()}")
    for role in Role:
        wait_until(lambda: broker.lease(role, "test").leader(), BACK_S, f"a process that leads as {role}")  # noqa: B023
    broker.close()


def test_it_goes_on_when_a_database_is_killed(up: Up) -> None:
    one = up.ready()
    with load(up) as jobs:
        for word in SERVERS[:2]:
            kill_one(one, word, jobs)
    jobs.nothing_is_lost()
    assert jobs.rerun() == set()
    up.leave(one)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_goes_on_whatever_is_killed(fresh: Up) -> None:
    one = fresh.ready()
    engines = [f"engines/{path.parent.name}" for path in Path("engines").glob("*/engine.yaml")]
    assert len(engines) >= 5
    with load(fresh) as jobs:
        for word in SERVERS:
            kill_one(one, word, jobs)
        assert jobs.rerun() == set(), "no engine has died yet"
        for word in [*engines, *NODE]:
            kill_one(one, word, jobs)
        everything_is_back(fresh, len(engines))
    jobs.nothing_is_lost()


@pytest.mark.slow
def test_an_up_that_was_killed_leaves_its_jobs_to_the_next(fresh: Up) -> None:
    one = fresh.ready()
    with load(fresh) as jobs:
        jobs.go_on(JOBS)
        one.process.kill()
        one.wait()
        fresh.ready()
        jobs.database_url = fresh.env["DATABASE_URL"]  # of another port
        jobs.go_on(JOBS)
    jobs.nothing_is_lost()
