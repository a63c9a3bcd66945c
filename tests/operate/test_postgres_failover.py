"""Postgres with a synchronous standby, as on docs/operate/failover.md: the primary is killed while jobs run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from dalston_site.embedded.binaries import postgres_program
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server
from dalston_site.env import database
from tests.operate.system import System
from tests.support import Spawned, reserve_port, wait_until

BOTH = "?host={hosts}&port={ports}&target_session_attrs=read-write"


class Pair:
    """A primary, and a standby that has each commit before its client hears of it."""

    def __init__(self, folder: Path) -> None:
        self.primary = Server(Postgres(folder / "primary"), folder)
        self._admin = self.primary.url
        self.port = reserve_port()
        copy = Postgres(folder / "standby")
        copy.folder.mkdir()
        shutil.copy(folder / "primary" / "password", copy.folder)
        argv = [str(postgres_program("pg_basebackup")), "--pgdata", str(copy.data), "--dbname", self._admin]
        more = ["--write-recovery-conf", "--checkpoint=fast"]
        subprocess.run([*argv, *more], check=True, capture_output=True)
        owner = (folder / "primary" / "data").stat()
        for path in (copy.data, *copy.data.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        self.standby = Spawned(copy.command(self.port), folder / "standby.log", os.environ)
        wait_until(lambda: self._ask(self._address(self.port), "SELECT pg_is_in_recovery()"), what="the standby")
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        state = "SELECT sync_state = 'sync' FROM pg_stat_replication"
        wait_until(lambda: self._ask(self._admin, state), what="synchronous replication")

    @property
    def url(self) -> str:
        parts = urlsplit(self._admin)
        options = BOTH.format(hosts="127.0.0.1,127.0.0.1", ports=f"{parts.port},{self.port}")
        return f"postgres://{parts.username}:{parts.password}@{parts.path}{options}"

    def fail_over(self) -> None:
        """kill -9 of the primary, and a new one as Patroni would make it."""
        os.kill(self.primary.pid, signal.SIGKILL)
        self.primary.process.wait()
        with psycopg.connect(self._address(self.port), autocommit=True) as connection:
            # The dead server is no standby of it yet.
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_promote(), pg_reload_conf()")

    def stop(self) -> None:
        self.standby.stop(signal.SIGINT)
        self.standby.reap()
        self.primary.stop()

    def _address(self, port: int) -> str:
        return (
            urlsplit(self._admin)
            ._replace(netloc=f"{self._admin.split('@')[0].split('//')[1]}@127.0.0.1:{port}")
            .geturl()
        )

    def _ask(self, url: str, query: str) -> bool:
        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                row = connection.execute(query.encode()).fetchone()
        except psycopg.OperationalError:
            return False
        return bool(row and row[0])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


def test_a_url_may_name_two_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "DATABASE_URL", "postgres://dalston:pw@/dalston" + BOTH.format(hosts="db1,db2", ports="5432,5433")
    )
    found = database("DATABASE_URL")
    assert (found["HOST"], found["PORT"], found["NAME"], found["USER"]) == ("", "", "dalston", "dalston")
    assert found["OPTIONS"] == {"host": "db1,db2", "port": "5432,5433", "target_session_attrs": "read-write"}


@pytest.mark.slow
@pytest.mark.keeps_keys
@pytest.mark.timeout(400)
def test_the_primary_is_killed_while_jobs_run_and_its_standby_has_each_of_them(
    pair: Pair, spawn: Callable[..., Spawned], process_env: dict[str, str], tmp_path: Path
) -> None:
    system = System.start(spawn, {**process_env, "DATABASE_URL": pair.url}, tmp_path / "state")
    with system.load as jobs:
        jobs.go_on(40)
        start = time.monotonic()
        pair.fail_over()
        promoted = time.monotonic() - start
        took = system.seconds_until_a_new_job_completes(start)
        print(f"promoted after {promoted:.1f} s, a new job completed after {took:.1f} s")
        jobs.go_on(40)
    system.nothing_is_lost()
