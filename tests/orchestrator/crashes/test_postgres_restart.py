"""Postgres restarts while jobs run: nothing becomes a dead letter, and no process has to be restarted."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from dalston_queue.broker import Broker
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server
from tests.orchestrator.processes import Orchestrators, working_engine
from tests.support import Spawned, wait_until

JOBS = 2000
SUBMIT = f"""
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import Request, submit_many
from dalston_queue.models import Project
stages = (StageSpec(stage="a", queue="echo"), StageSpec(stage="b", queue="echo", after=("a",)))
project = Project.objects.create(name="restart")
submit_many([Request(JobSpec(name="restart", stages=stages)) for _ in range({JOBS})], project=project)
"""


class Restartable:
    """A private Postgres that comes back on the same port."""

    def __init__(self, folder: Path) -> None:
        self.recipe = Postgres(folder, fast=True)
        self.server = Server(self.recipe, folder)
        self.url = self.server.url

    def restart(self) -> None:
        self.server.stop()
        port = urlsplit(self.url).port or 0
        with self.server.log.open("ab") as log:
            argv = self.recipe.command(port)
            self.server.process = subprocess.Popen(argv, stdout=log, stderr=log, process_group=0)
        wait_until(lambda: self.recipe.is_ready(port, self.server.pid), what="postgres is back")

    def value(self, query: str) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(query).fetchone()
        return int(row[0])


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path / "postgres")
    yield restartable
    restartable.server.stop()


@pytest.mark.slow
@pytest.mark.keeps_keys
def test_a_restart_of_postgres_dead_letters_nothing_and_jobs_go_on(
    postgres: Restartable, spawn: Callable[..., Spawned], process_env: dict[str, str], broker: Broker
) -> None:
    env = {**process_env, "DATABASE_URL": postgres.url}
    assert spawn("manage.py", "migrate", env=env).wait(60) == 0
    orchestrator = Orchestrators(spawn, process_env, postgres.url).start()
    done = "SELECT count(*) FROM dalston_job WHERE status = 'completed'"
    with working_engine(broker):
        assert spawn("manage.py", "shell", "-c", SUBMIT, env=env).wait(60) == 0
        for _ in range(3):
            postgres.restart()
            before = postgres.value(done)
            wait_until(lambda before=before: postgres.value(done) > min(before, JOBS - 1), what="jobs go on")  # type: ignore[misc]
        wait_until(lambda: postgres.value(done) == JOBS, 60, "all jobs are completed")
    assert postgres.value("SELECT count(*) FROM dalston_dead_letter") == 0
    assert postgres.value("SELECT count(*) FROM dalston_task WHERE status = 'completed'") == 2 * JOBS
    assert orchestrator.running()
    assert "postgres does not answer" in orchestrator.output
    assert orchestrator.stop() == 0
