"""Private servers of a run: Valkey with append-only file and fsync every second, Postgres with a database per round."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import redis

from bench.harness.processes import PeerError
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server
from dalston_site.embedded.valkey import Valkey

VALKEY_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "auto-aof-rewrite-percentage": "0",  # a rewrite of the file forks in the middle of a round
}
COMPLETED_TIMEOUT_S = 60.0


class BenchServer:
    """The run's Valkey."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: redis.Redis = redis.Redis.from_url(url)

    @property
    def pid(self) -> int:
        return int(self.info("server")["process_id"])

    def database(self, number: int) -> str:
        return f"{self.url.rpartition('/')[0]}/{number}"

    def flush(self) -> None:
        self.client.execute_command("FLUSHALL", "SYNC")  # freed in the background, it would show up in the next figure

    def used_memory(self) -> int:
        return int(self.info("memory")["used_memory"])

    def version(self) -> str:
        info = self.info("server")
        return str(info.get("valkey_version") or info["redis_version"])

    def info(self, section: str) -> dict[str, Any]:
        return dict(self.client.info(section))


@contextmanager
def private_valkey() -> Iterator[BenchServer]:
    with tempfile.TemporaryDirectory(prefix="dalston-bench-", ignore_cleanup_errors=True) as folder:
        server = Server(Valkey(Path(folder), VALKEY_SETTINGS), Path(folder))
        try:
            yield BenchServer(server.url)
        finally:
            server.stop()


@contextmanager
def private_postgres(*, fast: bool = False) -> Iterator[Server]:
    """`fast`: without fsync, where Postgres is not what is measured."""
    with tempfile.TemporaryDirectory(prefix="dalston-bench-", ignore_cleanup_errors=True) as folder:
        server = Server(Postgres(Path(folder) / "postgres", fast=fast), Path(folder))
        try:
            yield server
        finally:
            server.stop()


class Database:
    """A new database on the private Postgres."""

    def __init__(self, postgres_url: str, number: int) -> None:
        name = f"round_{number}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        self.url = f"{postgres_url.rpartition('/')[0]}/{name}"

    def count(self, query: LiteralString) -> int:
        with psycopg.connect(self.url) as connection:
            return _number(connection, query)

    def wait_for(self, query: LiteralString, wanted: int) -> float:
        """When the count was reached, by the monotonic clock."""
        end = time.monotonic() + COMPLETED_TIMEOUT_S
        with psycopg.connect(self.url, autocommit=True) as connection:
            while True:
                found, now = _number(connection, query), time.monotonic()
                if found >= wanted:
                    return now
                if now > end:
                    raise PeerError(f"{found} of {wanted} were completed within {COMPLETED_TIMEOUT_S:.0f} s")
                time.sleep(0.02)


def _number(connection: psycopg.Connection[tuple[int]], query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    return row[0] if row else 0
