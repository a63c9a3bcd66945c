"""`./dev up` survives the death of each of its processes, both databases included, and no job is lost."""

import json
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest

from tests.e2e.conftest import Up, command_of
from tests.support import Spawned, wait_until

JOBS = 10
BACK_S = 60
"""Engines and nodes load their programs again, all at once after the death of a supervisor."""


class Jobs:
    """Submits jobs and asks for them, whatever is away just now."""

    def __init__(self, up: Up) -> None:
        self._headers = {"Authorization": f"Bearer {up.env['DALSTON_TOKEN']}", "Content-Type": "application/json"}
        self._url = f"{up.env['DALSTON_URL']}/api/v1"
        self.submitted: set[str] = set()
        self.completed: set[str] = set()

    def submit(self, count: int = JOBS) -> None:
        for _ in range(count):
            key = uuid4().hex
            body = json.dumps({"task_type": "echo", "parameters": {"key": key}})
            answer = wait_until(lambda: self._request("POST", "/tasks", body, key), BACK_S, "a job is accepted")  # noqa: B023
            self.submitted.add(answer["task_id"])

    def all_completed(self) -> bool:
        for task_id in self.submitted - self.completed:
            if (self._request("GET", f"/tasks/{task_id}") or {}).get("status") == "completed":
                self.completed.add(task_id)
        return self.submitted == self.completed

    def _request(self, method: str, path: str, content: str = "", key: str = "") -> dict[str, Any] | None:
        headers = {**self._headers, **({"Idempotency-Key": key} if key else {})}
        try:
            answer = httpx.request(method, self._url + path, headers=headers, content=content or None, timeout=40)
        except httpx.TransportError:  # the web process is the one that died
            return None
        return answer.json() if answer.is_success else None


def child(up: Spawned, word: str) -> psutil.Process:
    """A process of `up` with this word in its command."""

    def found() -> psutil.Process | None:
        those = [it for it in psutil.Process(up.pid).children(recursive=True) if any(word in w for w in command_of(it))]
        return those[0] if those else None

    return wait_until(found, BACK_S, f"a process {word}")


def kill_each(up: Up, words: list[str]) -> None:
    one = up.ready()
    jobs = Jobs(up)
    for word in words:
        jobs.submit()
        victim = child(one, word)
        victim.kill()
        psutil.wait_procs([victim], BACK_S)
        jobs.submit()
        everything_is_done(one, jobs)
    up.leave(one)


def everything_is_done(one: Spawned, jobs: Jobs) -> None:
    def progress() -> str:
        return f"{len(jobs.completed)} of {len(jobs.submitted)} jobs are completed:\n{one.output[-3000:]}"

    wait_until(jobs.all_completed, BACK_S, progress)
    assert one.running(), one.output


def test_it_goes_on_when_a_database_is_killed(up: Up) -> None:
    kill_each(up, ["valkey-server", "bin/postgres"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_goes_on_whatever_is_killed(fresh: Up) -> None:
    servers = ["valkey-server", "bin/postgres"]
    ours = ["dalston_site.web", "runorchestrator", "run_huey", "runsupervisor", "engine.py", "logs/relay.py"]
    kill_each(fresh, servers + ours)


@pytest.mark.slow
def test_an_up_that_was_killed_leaves_its_jobs_to_the_next(fresh: Up) -> None:
    one = fresh.ready()
    jobs = Jobs(fresh)
    jobs.submit(50)
    one.process.kill()
    one.wait()
    everything_is_done(fresh.ready(), jobs)
